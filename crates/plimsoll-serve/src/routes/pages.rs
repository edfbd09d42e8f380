// SPDX-License-Identifier: Apache-2.0
//! The files of the page, built into the program.

use crate::state::ServerState;
use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;

const PAGE: &str = include_str!("../../../../web/dist/live.html");
const SCRIPT: &str = include_str!("../../../../web/dist/live.js");
const STYLE: &str = include_str!("../../../../web/dist/live.css");

pub(super) fn router() -> Router<Arc<ServerState>> {
    let style = || async { file("text/css; charset=utf-8", STYLE) };
    let script = || async { file("text/javascript; charset=utf-8", SCRIPT) };
    let report = || async { file("text/css; charset=utf-8", plimsoll_report::STYLE) };
    Router::new()
        .route(
            "/",
            get(|| async { file("text/html; charset=utf-8", PAGE) }),
        )
        // The page names its files beside itself.
        .route("/live.js", get(script))
        .route("/live.css", get(style))
        .route("/assets/live.js", get(script))
        .route("/assets/live.css", get(style))
        .route("/assets/report.css", get(report))
}

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
