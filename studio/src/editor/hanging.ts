// A line that is too long goes on further in than it begins, as one would write it by hand.

import type { Extension } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  type EditorView,
  ViewPlugin,
  type ViewUpdate,
} from "@codemirror/view";

const FURTHER = 2; // characters
const MOST = 12;

function indent(characters: number): Decoration {
  const style = `padding-left: calc(6px + ${characters}ch); text-indent: -${characters}ch`;
  return Decoration.line({ attributes: { style } });
}

const indents = Array.from({ length: MOST + 1 }, (_, characters) => indent(characters));

function decorated(view: EditorView): DecorationSet {
  const found = [];
  for (const { from, to } of view.visibleRanges) {
    for (let at = from; at <= to; ) {
      const line = view.state.doc.lineAt(at);
      const begins = line.text.search(/\S|$/);
      found.push(indents[Math.min(begins + FURTHER, MOST)]!.range(line.from));
      at = line.to + 1;
    }
  }
  return Decoration.set(found, true);
}

export const hanging: Extension = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;
    constructor(view: EditorView) {
      this.decorations = decorated(view);
    }
    update(update: ViewUpdate): void {
      if (update.docChanged || update.viewportChanged) this.decorations = decorated(update.view);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);
