// SPDX-License-Identifier: Apache-2.0
// The live page: who may see it, and which page is shown.
import "./live.css";
import { render } from "preact";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { addStyle } from "../report/style";
import { openForPrinting } from "../report/print";
import { themeButton } from "../report/theme";
import { api, type ServerError } from "./api";
import { CampaignPage } from "./campaign";
import { asServerError, useGone, useLoaded } from "./connection";
import { DiffPage } from "./diff";
import { HistoryPage, SeriesPageView } from "./history";
import { JobPage, JobsPage, StartingPage } from "./jobs";
import { Page, Refused } from "./parts";
import { followSections, href, useRoute, type Route } from "./router";
import { RunPage } from "./run";
import { RunsPage } from "./runs";
import { StackPage, StacksPage } from "./stacks";
import { WizardPage } from "./wizard";

/** The token of the printed address, taken out of it before anything else happens. */
function takeToken(): string | null {
  const token = /^#token=([^&]+)/.exec(location.hash)?.[1] ?? null;
  if (token !== null) history.replaceState(null, "", location.pathname);
  return token;
}

type Access = "asking" | "open" | "closed";

function App(props: { token: string | null }): JSX.Element {
  const [access, setAccess] = useState<Access>("asking");
  const [error, setError] = useState<ServerError>();
  const enter = async (token: string | null): Promise<void> => {
    try {
      if (token !== null) await api.logIn(token);
      const known = token !== null || (await api.resume());
      setError(undefined);
      setAccess(known ? "open" : "closed");
    } catch (caught) {
      setError(asServerError(caught));
      setAccess("closed");
    }
  };
  useEffect(() => void enter(props.token), []);
  if (access === "asking") return <main class="muted">Asking the server …</main>;
  if (access === "closed") return <LogIn enter={enter} error={error} />;
  return <Shell leave={() => setAccess("closed")} />;
}

function LogIn(props: { enter: (token: string) => Promise<void>; error: ServerError | undefined }): JSX.Element {
  const [token, setToken] = useState("");
  const submit = (event: Event): void => {
    event.preventDefault();
    void props.enter(token.trim());
    setToken("");
  };
  return (
    <Page title="Plimsoll" lead="This page needs the token that plimsoll serve printed.">
      <form class="form" onSubmit={submit}>
        <div class="field">
          <label for="token">Token</label>
          <input
            id="token"
            type="password"
            autocomplete="off"
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </div>
        <Refused error={props.error} />
        <div class="bar">
          <button type="submit" class="plain main" disabled={token.trim() === ""}>
            Open
          </button>
        </div>
      </form>
    </Page>
  );
}

const PLACES = [
  ["Runs", ""],
  ["History", "history"],
  ["New campaign", "new"],
  ["Stacks", "stacks"],
  ["Jobs", "jobs"],
] as const;

function Shell(props: { leave: () => void }): JSX.Element {
  const route = useRoute();
  const { value: server } = useLoaded(api.server, ["server"]);
  const places = PLACES.filter(([, place]) => place !== "history" || server?.history === true);
  const at = route[0] === "runs" || route[0] === "diff" ? "" : route[0] === "build" ? "stacks" : (route[0] ?? "");
  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header class="top">
        <a class="brand" href={href()}>
          Plimsoll
        </a>
        <nav aria-label="Pages">
          {places.map(([name, place]) => (
            <a
              key={name}
              href={place === "" ? href() : href(place)}
              {...(place === at ? { "aria-current": "page" as const } : {})}
            >
              {name}
            </a>
          ))}
        </nav>
        <div class="group">
          <ThemeButton />
          <button type="button" class="plain" onClick={() => void api.logOut().finally(props.leave)}>
            Leave
          </button>
        </div>
      </header>
      <Gone />
      <Routed key={route.join("/")} route={route} />
    </>
  );
}

function Gone(): JSX.Element {
  const gone = useGone();
  return (
    <div role="status">
      {gone && (
        <p class="notice bad gone">
          The server does not answer. What runs goes on without it. This page asks again by itself.
        </p>
      )}
    </div>
  );
}

function ThemeButton(): JSX.Element {
  const box = useRef<HTMLSpanElement>(null);
  useEffect(() => box.current?.replaceChildren(themeButton()), []);
  return <span ref={box} />;
}

function Routed(props: { route: Route }): JSX.Element {
  const [place, name, other] = props.route;
  if (place === undefined) return <RunsPage />;
  if (place === "runs") return name === undefined ? <RunsPage /> : <RunPage id={name} />;
  if (place === "diff" && name !== undefined && other !== undefined) return <DiffPage base={name} other={other} />;
  if (place === "history") return name === undefined ? <HistoryPage /> : <SeriesPageView id={name} />;
  if (place === "new") return <CampaignPage />;
  if (place === "stacks") return name === undefined ? <StacksPage /> : <StackPage name={name} />;
  if (place === "build") return <WizardPage />;
  if (place === "starting" && name !== undefined) return <StartingPage id={name} />;
  if (place === "jobs") return name === undefined ? <JobsPage /> : <JobPage id={name} />;
  return (
    <Page title="No such page">
      <p>
        <a href={href()}>Runs</a>
      </p>
    </Page>
  );
}

const token = takeToken();
const root = document.getElementById("app");
if (root) {
  addStyle();
  openForPrinting();
  root.replaceChildren();
  document.addEventListener("click", followSections);
  render(<App token={token} />, root);
}
