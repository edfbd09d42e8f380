// SPDX-License-Identifier: Apache-2.0
//! The same tests on both databases.

mod made;
#[expect(dead_code, reason = "the tests of a team's server use more of it")]
mod postgres;

use plimsoll_history::{
    HistoryAddress, HistoryAuditEntry, HistoryDatabase, HistoryError, HistoryMarkKind,
    HistoryRunDraft, HistoryScope, HistoryViewer, RunFigures, now_ms,
};
use postgres::TestPostgres;

fn figures() -> RunFigures {
    let place = tempfile::tempdir().expect("a temporary directory");
    let folder = place.path().join("run");
    made::run_folder(&folder, "monday", 1.5);
    RunFigures::read(&folder, None).expect("it is a run")
}

fn entry(action: &str) -> HistoryAuditEntry {
    HistoryAuditEntry {
        who: "ada".into(),
        from_where: "127.0.0.1".into(),
        action: action.into(),
        ..HistoryAuditEntry::default()
    }
}

/// Does something on an empty SQLite file and on an empty PostgreSQL.
fn on_both(test: &str, work: impl AsyncFn(HistoryDatabase) -> Result<(), HistoryError>) {
    let place = tempfile::tempdir().expect("a temporary directory");
    let file = format!("sqlite:{}", place.path().join("team.db").display());
    let mut addresses = vec![HistoryAddress::from_environment(&file).expect("an address")];
    let server = TestPostgres::start(test);
    if let Some(server) = &server {
        addresses.push(HistoryAddress::from_environment(&server.url()).expect("an address"));
    }
    for address in addresses {
        let done = HistoryDatabase::with(&address, async |database| work(database).await);
        done.unwrap_or_else(|error| panic!("{address}: {error}"));
        // A second program finds the tables as they are.
        let done = HistoryDatabase::with(&address, async |database| database.users().await);
        assert!(!done.expect("it opens again").is_empty(), "{address}");
    }
}

#[test]
fn users_tokens_runs_series_and_marks_are_alike_on_both() {
    on_both("history on both databases", async |database| {
        tokens(&database).await?;
        runs(&database).await?;
        Ok(())
    });
}

async fn tokens(database: &HistoryDatabase) -> Result<(), HistoryError> {
    database.add_user("ada").await?;
    for wrong in ["", "a b", "-x", "ä", "a'b"] {
        assert!(database.add_user(wrong).await.is_err(), "{wrong}");
    }
    let twice = database
        .add_user("ada")
        .await
        .expect_err("it is there")
        .to_string();
    assert!(twice.contains("a user 'ada' already"), "{twice}");
    let scopes = HistoryScope::parse_list("push,read").expect("they are known");
    let (id, secret) = database.add_token("ada", &scopes, "ci", None).await?;
    let caller = database.caller(&secret).await?.expect("it is valid");
    assert_eq!((&*caller.name, &caller.scopes), ("ada", &scopes));
    assert_eq!(database.caller("wrong").await?, None);
    let over = database
        .add_token("ada", &scopes, "", Some(now_ms() - 1))
        .await?;
    assert_eq!(database.caller(&over.1).await?, None, "it has expired");
    assert_eq!(database.caller_of_token(id).await?, Some(caller));
    database.revoke_token(id).await?;
    assert_eq!(database.caller(&secret).await?, None, "it is revoked");
    assert_eq!(database.caller_of_token(id).await?, None);
    assert!(database.revoke_token(id).await.is_err());
    let shown = format!("{:?}", database.tokens().await?);
    assert!(!shown.contains(&secret), "{shown}");
    assert!(database.add_token("bob", &scopes, "", None).await.is_err());
    Ok(())
}

async fn runs(database: &HistoryDatabase) -> Result<(), HistoryError> {
    let (owner, other) = (database.user("ada").await?, database.add_user("bob").await?);
    let figures = figures();
    let draft = |folder, digest| HistoryRunDraft {
        owner_id: owner.id,
        digest,
        folder,
        revision: "abc123",
        bytes: 1000,
        is_shared: false,
        figures: &figures,
    };
    database
        .add_run(&draft("one", "d1"), &entry("push"))
        .await?;
    // Once more is no second run, and no second fact.
    database
        .add_run(&draft("one", "d1"), &entry("push"))
        .await?;
    database
        .add_run(&draft("two", "d2"), &entry("push"))
        .await?;
    let runs = database.runs().await?;
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!(database.bytes_of(owner.id).await?, 2000);
    let facts = database.facts_of(runs[0].id).await?;
    assert_eq!(facts.len(), figures.facts.len());
    let ratios = facts.iter().filter(|fact| fact.ratio.is_some()).count();
    assert!(ratios > 0, "{facts:?}");
    series(database, owner.id, other.id).await
}

async fn series(database: &HistoryDatabase, owner: i64, other: i64) -> Result<(), HistoryError> {
    let owns = HistoryViewer {
        user_id: owner,
        sees_all: false,
    };
    let strange = HistoryViewer {
        user_id: other,
        sees_all: false,
    };
    let all = database.series_list(owns, 0, "").await?;
    assert!(!all.is_empty());
    assert_eq!(database.series_list(strange, 0, "").await?, []);
    assert_eq!(database.series_list(owns, 0, "no such words").await?, []);
    assert_eq!(
        database.series_list(owns, 0, &all[0].metric).await?[0],
        all[0]
    );
    let page = database
        .series_page(owns, all[0].id)
        .await?
        .expect("it is there");
    assert_eq!(page.points.len(), 2);
    assert_eq!(database.series_page(strange, all[0].id).await?, None);
    let shared = database.share("one", true, &entry("share")).await;
    shared?;
    let page = database
        .series_page(strange, all[0].id)
        .await?
        .expect("one is shared");
    assert_eq!(page.points.len(), 1, "{page:?}");

    let mark = (HistoryMarkKind::Acknowledged, None, "a new disk");
    let hidden = database
        .mark(strange, (all[0].id, Some("two")), mark, &entry("mark"))
        .await;
    assert!(hidden.is_err(), "bob does not see that run");
    database
        .mark(owns, (all[0].id, Some("two")), mark, &entry("mark"))
        .await?;
    let seen = database
        .series_page(owns, all[0].id)
        .await?
        .expect("it is there");
    assert_eq!(seen.marks[0].note, "a new disk");
    let seen = database
        .series_page(strange, all[0].id)
        .await?
        .expect("it is there");
    assert_eq!(
        seen.marks,
        [],
        "the note belongs to a run that bob does not see"
    );

    let trail = database.audit(0, 100).await?;
    let actions: Vec<&str> = trail.iter().map(|entry| &*entry.action).collect();
    assert_eq!(
        actions,
        ["mark", "share", "push", "push"],
        "refused ones leave none"
    );
    Ok(())
}
