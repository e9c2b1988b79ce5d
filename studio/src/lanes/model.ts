// Which keys and events are at hand, and which are asked for next.
//
// Keys come in pages as one scrolls; lanes come for the keys in view, with a margin to both sides,
// so that a small move finds them there. What is drawn until an answer comes is what was there before,
// moved and stretched with the view: the canvas never waits for the session.

import { signal } from "@preact/signals";
import type { Axis, KeyInfo, Lane, Problem } from "../protocol";
import type { Studio } from "../state/studio";
import { Camera, type Span } from "./camera";

const PAGE = 100; // keys per call
const REST = 70; // ms without a move before lanes are asked for
const MARGIN = 0.3; // of the view, to each side
export const BUCKET = 4; // pixels of a bucket
const EASY = 1000; // rows in view that are surely shown one by one
const LONGEST = 3000; // ms that a key waits for events
const NARROW = 8; // pixels for each row of a path, in which rows cannot be told apart

export interface Held extends Span {
  lane: Lane;
  width: number;
  age: number;
}

export interface Order {
  search: string;
  sort: string;
  reason: string | null;
}

export class LanesModel {
  readonly camera = new Camera();
  readonly lanes = new Map<number, Held>();
  readonly changed = signal(0);
  readonly problem = signal<Problem | null>(null);
  readonly order = signal<Order>({ search: "", sort: "key", reason: null });
  axis: Axis = "rank";
  empty = false;
  total = 0;
  scroll = 0;
  laneHeight = 38;
  width = 600;
  height = 300;
  far = false;
  /** The colour of each variable, by its number in the lanes' answer. */
  shades: number[] = [];
  /** Variables whose own condition says something of a single row: the others colour none. */
  telling: ReadonlySet<number> = new Set();
  cut: string | null = null;
  private keys: (KeyInfo | undefined)[] = [];
  private age = 0;
  private shape = "";
  private timer: ReturnType<typeof setTimeout> | undefined;
  private keysAsked = "";
  private keysAge = 0; // of the query whose keys are here

  constructor(private readonly studio: Studio) {}

  /** A new query: what is drawn is old, and stays until the new answers come. */
  async restart(): Promise<void> {
    const { asked, source } = this.studio;
    this.age += 1;
    this.keysAsked = "";
    if (!asked.value || !source.value) {
      this.clear();
      return;
    }
    const params = { source: source.value, query: asked.value };
    const whole = { ...params, keys: [], from: null, to: null, width: 1 };
    const answer = await this.studio.tasks.ask("lanes", "lanes", whole);
    if (!answer) return;
    if ("problem" in answer) {
      this.problem.value = answer.problem;
      return;
    }
    this.problem.value = null;
    const { axis, from, to } = answer.result;
    this.axis = axis;
    this.empty = from === null || to === null;
    this.camera.cover(from ?? 0, to ?? 1);
    const { partition_by, order_by } = params.query.options;
    const shape = JSON.stringify([source.value, axis, from, to, partition_by, order_by]);
    if (shape !== this.shape) {
      this.clear();
      this.camera.fit();
      this.shape = shape;
    }
    this.keys = [];
    await this.askKeys(this.first());
    this.touch();
  }

  /** The view moved, or its size changed. */
  touch(): void {
    this.scroll = Math.max(0, Math.min(this.scroll, this.total * this.laneHeight - this.height));
    this.changed.value += 1;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.fetch(), REST);
  }

  setOrder(order: Partial<Order>): void {
    this.order.value = { ...this.order.value, ...order };
    this.keys = [];
    this.keysAsked = "";
    this.scroll = 0;
    void this.askKeys(0).then(() => this.touch());
  }

  keyAt(index: number): KeyInfo | undefined {
    return this.keys[index];
  }

  indexOf(key: number): number {
    return this.keys.findIndex((one) => one?.key === key);
  }

  first(): number {
    return Math.floor(this.scroll / this.laneHeight);
  }

  /** What a zoom keeps in place: the first event in view, not an empty middle. */
  anchor(): number {
    const { from, to } = this.camera;
    for (const index of this.seen()) {
      const held = this.lanes.get(this.keys[index]?.key ?? -1);
      const at = held?.lane.points?.at.find((one) => one >= from && one <= to);
      if (at !== undefined) return at;
    }
    return (from + to) / 2;
  }

  /** The indexes of the lanes in view. */
  seen(): number[] {
    const first = this.first();
    const last = Math.min(this.total, Math.ceil((this.scroll + this.height) / this.laneHeight));
    return Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  }

  /** Scrolls and moves so that a place is seen; the order gives way where it hides the key. */
  async reveal(key: number, from?: number, to?: number): Promise<void> {
    let index = this.indexOf(key);
    if (index < 0) {
      const { search, sort, reason } = this.order.value;
      if (search || sort !== "key" || reason) {
        this.order.value = { search: "", sort: "key", reason: null };
        this.keys = [];
      }
      index = key;
      await this.askKeys(index);
    }
    const top = index * this.laneHeight;
    if (top < this.scroll || top + this.laneHeight > this.scroll + this.height) {
      this.scroll = top - this.height / 2 + this.laneHeight / 2;
    }
    if (from !== undefined) this.camera.reveal(from, to ?? from);
    this.touch();
  }

  /** Comes so near that these places can be told apart. */
  approach(places: readonly number[]): void {
    const [from, to] = [Math.min(...places), Math.max(...places)];
    const wide = ((to - from) / this.camera.span) * this.width;
    if (!(to >= from)) return;
    if (to > from && wide < places.length * NARROW) {
      this.camera.show(from - (to - from) / 2, to + (to - from) / 2);
    } else this.camera.reveal(from, to);
    this.touch();
  }

  /** From far, comes so near that single events of a lane are shown; whether it had to. */
  nearer(key: number): boolean {
    const held = this.lanes.get(key);
    const buckets = held?.lane.buckets;
    if (!held || !buckets?.at.length) return false;
    const wide = (held.to - held.from) / Math.max(1, Math.floor(held.width / BUCKET));
    const places = buckets.at.map((one) => held.from + one * wide);
    const { from, to } = this.camera;
    const first = places.find((at) => at >= from && at <= to) ?? places[0]!;
    const all = this.seen().reduce((total, index) => total + (this.keys[index]?.rows ?? 0), 0);
    const share = EASY / Math.max(EASY * 2, all * this.camera.share);
    this.camera.zoom(share, first);
    this.touch();
    return true;
  }

  /** Once the keys are here, and what is in view of one of them; or once they do not come. */
  arrived(key?: number): Promise<void> {
    const known = () => this.keysAge === this.age && (key === undefined || this.fresh(key));
    const nothing = () => this.empty || this.problem.value !== null || !this.studio.asked.value;
    const here = () => known() || nothing();
    if (here()) return Promise.resolve();
    return new Promise((done) => {
      let off = () => {};
      const stop = () => {
        clearTimeout(timer);
        off();
        done();
      };
      const timer = setTimeout(stop, LONGEST);
      off = this.changed.subscribe(() => here() && stop());
    });
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  private clear(): void {
    this.lanes.clear();
    this.studio.labels.value = new Map();
    this.keys = [];
    this.total = 0;
    this.scroll = 0;
    this.changed.value += 1;
  }

  private async askKeys(index: number): Promise<void> {
    const { asked, source, tasks } = this.studio;
    if (!asked.value || !source.value) return;
    const offset = Math.max(0, Math.floor(index / PAGE) * PAGE);
    const params = {
      source: source.value,
      query: asked.value,
      ...this.order.value,
      offset,
      limit: PAGE * 2,
    };
    const name = JSON.stringify([this.age, params]);
    if (name === this.keysAsked) return;
    this.keysAsked = name;
    const answer = await tasks.ask("keys", "keys", params);
    if (!answer) return;
    if ("problem" in answer) {
      this.problem.value = answer.problem;
      this.keysAsked = "";
      return;
    }
    this.problem.value = null;
    this.total = answer.result.total;
    if (params.query === this.studio.asked.value) this.keysAge = this.age;
    const { labels } = this.studio;
    labels.value = new Map([
      ...labels.value,
      ...answer.result.keys.map(({ key, label }) => [key, label] as const),
    ]);
    answer.result.keys.forEach((one, i) => {
      this.keys[offset + i] = one;
    });
    this.changed.value += 1;
  }

  private async fetch(): Promise<void> {
    const { asked, source, tasks, hello } = this.studio;
    if (!asked.value || !source.value || this.empty) return;
    const indexes = this.seen();
    const missing = indexes.find((index) => !this.keys[index]);
    if (missing !== undefined) await this.askKeys(missing);
    const most = hello.value?.settings.max_lanes ?? 100;
    const wanted = indexes
      .map((index) => this.keys[index]?.key)
      .filter((key): key is number => key !== undefined && !this.fresh(key))
      .slice(0, most);
    if (!wanted.length) return;
    const { camera, age } = this;
    const from = camera.from - camera.span * MARGIN;
    const to = camera.to + camera.span * MARGIN;
    const width = Math.round(this.width * (1 + 2 * MARGIN));
    const params = { source: source.value, query: asked.value, keys: wanted, from, to, width };
    const answer = await tasks.ask("lanes", "lanes", params);
    if (!answer || age !== this.age) return;
    if ("problem" in answer) {
      this.problem.value = answer.problem;
      return;
    }
    this.problem.value = null;
    const got = answer.result;
    this.far = got.far;
    const palette = this.studio.palette.value;
    this.shades = got.variables.map((name, index) => palette.get(name) ?? index);
    this.telling = new Set(got.telling);
    this.cut = got.cut;
    for (const lane of got.lanes) {
      this.lanes.set(lane.key, { lane, from: got.from ?? from, to: got.to ?? to, width, age });
    }
    if (this.lanes.size > 4 * most) this.forget(indexes);
    this.changed.value += 1;
    if (wanted.length === most) this.touch();
  }

  private fresh(key: number): boolean {
    const held = this.lanes.get(key);
    if (!held || held.age !== this.age) return false;
    const { camera } = this;
    if (held.from > camera.from || held.to < camera.to) return false;
    if (held.lane.points) return true;
    const finer = held.width / (held.to - held.from) / (this.width / camera.span);
    return finer > 0.75 && finer < 1.5;
  }

  private forget(seen: number[]): void {
    const keep = new Set(seen.map((index) => this.keys[index]?.key));
    for (const key of this.lanes.keys()) if (!keep.has(key)) this.lanes.delete(key);
  }
}
