// Names of variables wear the colour that their events have in the lanes.

import { type Extension, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  type EditorView,
  MatchDecorator,
  ViewPlugin,
  type ViewUpdate,
} from "@codemirror/view";
import { SHADES } from "../lanes/palette";

export const setPalette = StateEffect.define<Map<string, number>>();

const palette = StateField.define<Map<string, number>>({
  create: () => new Map(),
  update(value, transaction) {
    for (const effect of transaction.effects) {
      if (effect.is(setPalette)) {
        return new Map([...effect.value].map(([name, colour]) => [name.toLowerCase(), colour]));
      }
    }
    return value;
  },
});

const marks = Array.from({ length: SHADES }, (_, index) =>
  Decoration.mark({ class: `variable v${index}` }),
);
const names = new MatchDecorator({
  regexp: /[A-Za-z_]\w*/g,
  decoration(match, view) {
    const colour = view.state.field(palette).get(match[0].toLowerCase());
    return colour === undefined ? null : marks[colour % SHADES]!;
  },
});

const painter = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;
    constructor(view: EditorView) {
      this.decorations = names.createDeco(view);
    }
    update(update: ViewUpdate): void {
      const painted = update.transactions.some((one) => one.effects.some((e) => e.is(setPalette)));
      this.decorations = painted
        ? names.createDeco(update.view)
        : names.updateDeco(update, this.decorations);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

export const variables: Extension = [palette, painter];
