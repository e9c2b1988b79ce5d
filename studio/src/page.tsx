// The page of `ensue studio`: takes the token from the link, and out of the address.

import { mount } from "./mount";
import { browser } from "./state/keep";
import { HttpTransport } from "./transport/http";
import "./style/page.css";

const TOKEN = "ensue-token";
const fragment = new URLSearchParams(location.hash.slice(1));
const given = fragment.get("token");
if (given !== null) sessionStorage.setItem(TOKEN, given);
const share = fragment.get("share");
if (location.hash) history.replaceState(null, "", location.pathname);

mount(
  document.getElementById("studio")!,
  new HttpTransport(sessionStorage.getItem(TOKEN) ?? ""),
  browser,
  share === null ? null : `#share=${share}`,
);
