// SPDX-License-Identifier: Apache-2.0
//! Connections that leave a machine: to a team's server and to its database. Both are encrypted, and neither
//! is spoken to before it has shown a certificate that is trusted.

use crate::client::{TestServer, place, plimsoll};
use crate::made::run_folder;
use crate::postgres::{SELF_SIGNED, TestPostgres};
use crate::team::{add_user, told};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Makes `NAME.pem` and `NAME.key` in a folder.
#[expect(clippy::disallowed_methods, reason = "the test needs certificates")]
fn certificate(place: &Path, name: &str) {
    let words = [format!("{name}.pem"), format!("{name}.key")];
    let status = Command::new(SELF_SIGNED[0])
        .args(&SELF_SIGNED[1..])
        .args(["-out", &words[0], "-keyout", &words[1]])
        .current_dir(place)
        .stderr(Stdio::null())
        .status();
    assert!(status.is_ok_and(|status| status.success()), "{name}");
}

#[test]
fn a_run_is_pushed_over_tls_to_a_server_that_is_trusted() {
    let place = place();
    for name in ["ours", "foreign"] {
        certificate(place.path(), name);
    }
    let args = [
        "--database",
        "sqlite:team.db",
        "--tls-cert",
        "ours.pem",
        "--tls-key",
        "ours.key",
    ];
    let server = TestServer::start_in(place, &args);
    let place = server.place.path();
    let token = add_user(place, "sqlite:team.db", "ada", "read,push");
    run_folder(&place.join("monday"), "monday", 1.5);
    let push = |scheme: &str, more: &[&str]| -> (Option<i32>, String) {
        let to = format!("{scheme}://{}", server.address);
        let output = plimsoll(place)
            .env("PLIMSOLL_TOKEN", &token)
            .args(["push", "monday", "--server", &to])
            .args(more)
            .output()
            .expect("it starts");
        (output.status.code(), told(&output))
    };
    for more in [&[][..], &["--ca", "foreign.pem"]] {
        let (code, said) = push("https", more);
        assert_eq!(code, Some(2), "{said}");
        assert!(
            said.contains("is not trusted") && said.contains("give --ca"),
            "{said}"
        );
        assert!(!said.contains(&token), "{said}");
    }
    // A push without TLS to this server must fail.
    assert_ne!(push("http", &[]).0, Some(0));
    let stored = || {
        std::fs::read_dir(server.runs())
            .expect("it is there")
            .flatten()
            .count()
    };
    let before = stored();
    let (code, said) = push("https", &["--ca", "ours.pem"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(stored() > before);
}

#[test]
fn the_connection_to_the_database_is_encrypted_and_its_server_is_known() {
    let Some(postgres) = TestPostgres::start("TLS to the database") else {
        return;
    };
    let place = place();
    certificate(place.path(), "foreign");
    let ours = postgres.encrypt().display().to_string();
    let foreign = place.path().join("foreign.pem").display().to_string();
    let add = |name: &str, more: &str| -> Output {
        plimsoll(place.path())
            .env("PLIMSOLL_DATABASE", format!("{}?{more}", postgres.url()))
            .args(["team", "user", "add", name])
            .output()
            .expect("it starts")
    };
    for refused in [
        "sslmode=disable".to_owned(),
        format!("sslmode=verify-full&sslrootcert={foreign}"),
    ] {
        let output = add("eve", &refused);
        let said = told(&output);
        assert!(!output.status.success(), "{refused}: {said}");
        assert!(!said.contains(crate::postgres::PASSWORD), "{said}");
    }
    let output = add("ada", &format!("sslmode=verify-full&sslrootcert={ours}"));
    assert!(output.status.success(), "{}", told(&output));
    let users = postgres.tool("psql", "postgres", &["-Atc", "SELECT name FROM users"]);
    assert!(users.contains("ada") && !users.contains("eve"), "{users}");
}
