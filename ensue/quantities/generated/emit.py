"""The machine code of a query: one block per node, one per move.

`walk` reads the events of many partitions. Slots are local variables, which LLVM keeps in
registers; they meet memory only where a partition begins, ends or is left. A letter that no node
was built for leaves the walk, with its state in `carry`; the caller adds it and goes on from there.

`letters` evaluates the predicates that are comparisons of numbers, for a whole batch.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ensue.guards.operators import TooHardError
from ensue.quantities.generated.code import (
    DOUBLE,
    I8,
    I64,
    Cell,
    Number,
    Writer,
    number,
    truth,
)
from ensue.quantities.generated.conditions import Conditions
from ensue.quantities.generated.steps import Code, Constant, Fold, Nodes, Old, Value, Weight
from ensue.quantities.kernels import loop as vm

# Arguments of `walk`, 64 bits each; pointers to the weights and their marks follow.
ARGUMENTS = (
    "parts", "starts", "entries", "keep", "letters", "occupied", "bits", "marks", "out_bits",
    "out_marks", "end_bits", "end_marks", "carry_bits", "carry_marks", "place", "open",
)  # fmt: skip
DONE, STRANGE = 1, 2  # what `walk` returns: at the end; a letter without a move; or a fault
# What it leaves at `place`.
PART, ROW, NODE = 0, 1, 2
CARRIED = -1  # in `entries`: goes on from `carry`, at the node in `place`


class Walk:
    """`walk` of some nodes, with outputs per event or not, and with state kept or not."""

    def __init__(
        self, module: ir.Module, nodes: Nodes, wide: bool, streaming: bool, keeping: bool
    ) -> None:
        self.nodes, self.streaming, self.keeping = nodes, streaming, keeping
        self.program = nodes.program
        self._letter = ir.IntType(16 if wide else 8)
        function = ir.Function(module, ir.FunctionType(I64, [I64.as_pointer()]), "walk")
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self._row_of_fault = 0  # after the row that is read: 0, or -1 for the one before
        self.w = Writer(self.b, self._fault)
        given = function.args[0]
        self._arguments = {
            name: self.b.load(self.b.gep(given, [number(i)])) for i, name in enumerate(ARGUMENTS)
        }
        first, count = len(ARGUMENTS), 1 + max(_weights(nodes), default=-1)
        self._weights = [
            self._pointer(self.b.load(self.b.gep(given, [number(first + i)])), I64)
            for i in range(count)
        ]
        self._weight_marks = [
            self._pointer(self.b.load(self.b.gep(given, [number(first + count + i)])), I8)
            for i in range(count)
        ]
        floats = _float_slots(self.program)
        self._bits = [
            self.b.alloca(DOUBLE if slot in floats else I64) for slot in range(self.program.slots)
        ]
        self._marks = [self.b.alloca(ir.IntType(1)) for _ in range(self.program.slots)]
        self._part, self._row, self._end = (self.b.alloca(I64) for _ in range(3))
        self._written = 0
        self._body()

    # -- blocks ----------------------------------------------------------------------------------

    def _body(self) -> None:
        b = self.b
        count = len(self.nodes.nodes)
        self._next = b.append_basic_block("next")
        self._nodes = [b.append_basic_block(f"node{i}") for i in range(count)]
        self._arrive = [b.append_basic_block(f"arrive{i}") for i in range(count)]
        self._broken = b.append_basic_block("fault")
        b.store(number(0), self._part)
        self._kind = b.alloca(I64)
        b.branch(self._next)
        with b.goto_block(self._broken):
            place = self._argument("place")
            b.store(b.load(self._part), b.gep(place, [number(PART)]))
            b.ret(b.load(self._kind))
        self._enter()
        for index in range(count):
            self._node(index)

    def _enter(self) -> None:
        """A partition: from the start, from what was kept of it, or from where it was left."""
        b = self.b
        b.position_at_end(self._next)
        part = b.load(self._part)
        some = b.append_basic_block("some")
        none = b.append_basic_block("none")
        b.cbranch(b.icmp_signed("<", part, self._arguments["parts"]), some, none)
        b.position_at_end(none)
        b.ret(number(DONE))
        b.position_at_end(some)
        starts = self._argument("starts")
        b.store(b.load(b.gep(starts, [part])), self._row)
        b.store(b.load(b.gep(starts, [b.add(part, number(1))])), self._end)
        entry = b.load(b.gep(self._argument("entries"), [part]))
        fresh = b.append_basic_block("fresh")
        kept = b.append_basic_block("kept")
        b.cbranch(b.icmp_signed("==", entry, number(self.nodes.root)), fresh, kept)
        b.position_at_end(fresh)
        for slot, value in self.nodes.first.items():
            self._store(slot, self._value(value, {}, {}))
        b.branch(self._nodes[self.nodes.root])
        b.position_at_end(kept)
        carried = b.icmp_signed("==", entry, number(CARRIED))
        keep = b.load(b.gep(self._argument("keep"), [part]))
        begin = b.mul(keep, number(self.program.slots))
        carry_bits, carry_marks = self._argument("carry_bits"), self._argument("carry_marks", I8)
        bits, marks = carry_bits, carry_marks
        if self.keeping:
            bits = b.select(carried, bits, b.gep(self._argument("bits"), [begin]))
            marks = b.select(carried, marks, b.gep(self._argument("marks", I8), [begin]))
        for slot in range(self.program.slots):
            mark = b.load(b.gep(marks, [number(slot)]))
            null = b.icmp_unsigned("!=", mark, ir.Constant(I8, 0))
            self._store(slot, Cell(b.load(b.gep(bits, [number(slot)])), null))
        left = b.load(b.gep(self._argument("place"), [number(NODE)]))
        dead = b.append_basic_block("dead")
        switch = b.switch(b.select(carried, left, entry), dead)
        for index, block in enumerate(self._nodes):
            switch.add_case(number(index), block)
        b.position_at_end(dead)
        b.unreachable()

    def _node(self, index: int) -> None:
        b, nodes = self.b, self.nodes
        b.position_at_end(self._nodes[index])
        row = b.load(self._row)
        some, over = b.append_basic_block("event"), b.append_basic_block("over")
        b.cbranch(b.icmp_signed("<", row, b.load(self._end)), some, over)
        b.position_at_end(some)
        letter = b.load(b.gep(self._argument("letters", self._letter), [row]))
        strange = b.append_basic_block("strange")
        switch = b.switch(letter, strange)
        blocks: dict[int, Any] = {}
        for given in sorted(nodes.letters):
            read = nodes.read(index, given)
            if read not in blocks:
                blocks[read] = b.append_basic_block("move")
            switch.add_case(ir.Constant(self._letter, given), blocks[read])
        b.position_at_end(strange)
        self._leave(index, STRANGE)
        for read, block in blocks.items():
            b.position_at_end(block)
            self._move(index, read)
        b.position_at_end(self._arrive[index])
        if self.streaming:
            self._row_of_fault = 0
            row = b.load(self._row)
            value = self._output(index)
            b.store(value[0], b.gep(self._argument("out_bits"), [row]))
            b.store(value[1], b.gep(self._argument("out_marks", I8), [row]))
        b.store(b.add(b.load(self._row), number(1)), self._row)
        b.branch(self._nodes[index])
        b.position_at_end(over)
        self._over(index)

    def _move(self, index: int, read: int) -> None:
        self._row_of_fault = 0
        move = self.nodes.moves[index, read]
        known = dict(self.nodes.nodes[index].marks)
        made: dict[int, Cell] = {}
        cells = {}
        for slot, value in move.slots.items():
            cells[slot] = self._value(value, known, made, move.late)
        for slot, cell in cells.items():
            self._store(slot, cell)
        self.b.branch(self._arrive[move.target])

    def _over(self, index: int) -> None:
        """The end of a partition: left open, or told and kept."""
        b = self.b
        part = b.load(self._part)
        last = b.icmp_signed("==", b.add(part, number(1)), self._arguments["parts"])
        is_open = b.icmp_signed("!=", self._arguments["open"], number(0))
        left, told = b.append_basic_block("left"), b.append_basic_block("told")
        b.cbranch(b.and_(last, is_open), left, told)
        b.position_at_end(left)
        self._leave(index, DONE)
        b.position_at_end(told)
        self._row_of_fault = -1
        value = self._output(index)
        b.store(value[0], b.gep(self._argument("end_bits"), [part]))
        b.store(value[1], b.gep(self._argument("end_marks", I8), [part]))
        if self.keeping:
            self._keep(index, part)
        b.store(b.add(part, number(1)), self._part)
        b.branch(self._next)

    def _keep(self, index: int, part: Number) -> None:
        b = self.b
        keep = b.load(b.gep(self._argument("keep"), [part]))
        kept, gone = b.append_basic_block("keep"), b.append_basic_block("gone")
        b.cbranch(b.icmp_signed(">=", keep, number(0)), kept, gone)
        b.position_at_end(kept)
        states, slots = self.nodes.settled(index)
        known = dict(self.nodes.nodes[index].marks)
        made: dict[int, Cell] = {}
        count = len(self.program.base)
        occupied = b.gep(self._argument("occupied", I8), [b.mul(keep, number(count))])
        for state in range(count):
            place = b.gep(occupied, [number(state)])
            b.store(ir.Constant(I8, int(state in states)), place)
        begin = b.mul(keep, number(self.program.slots))
        bits = b.gep(self._argument("bits"), [begin])
        marks = b.gep(self._argument("marks", I8), [begin])
        cells = {slot: self._value(value, known, made) for slot, value in slots.items()}
        self._save(cells, bits, marks)
        b.branch(gone)
        b.position_at_end(gone)

    def _leave(self, index: int, status: int) -> None:
        """Out of the walk, with the node's slots in `carry`."""
        b = self.b
        place = self._argument("place")
        for name, value in (
            (PART, b.load(self._part)),
            (ROW, b.load(self._row)),
            (NODE, number(index)),
        ):
            b.store(value, b.gep(place, [number(name)]))
        known = dict(self.nodes.nodes[index].marks)
        slots = self.nodes.slots_of(index)
        cells = {slot: self._value(Old(slot), known, {}) for slot in slots}
        self._save(cells, self._argument("carry_bits"), self._argument("carry_marks", I8))
        b.ret(number(status))

    def _save(self, cells: dict[int, Cell], bits: Number, marks: Number) -> None:
        b = self.b
        for slot, cell in cells.items():
            b.store(cell.bits, b.gep(bits, [number(slot)]))
            b.store(b.zext(cell.null, I8), b.gep(marks, [number(slot)]))

    def _output(self, index: int) -> tuple[Number, Number]:
        value = self.nodes.output(index)
        if value is None:
            return number(0), ir.Constant(I8, vm.UNDEFINED)
        cell = self._value(value, dict(self.nodes.nodes[index].marks), {})
        return cell.bits, self.b.zext(cell.null, I8)

    # -- values ----------------------------------------------------------------------------------

    def _value(
        self,
        value: Value,
        known: dict[int, int],
        made: dict[int, Cell],
        late: frozenset[int] = frozenset(),
    ) -> Cell:
        """The code of a value; `late` ones are of the event before, and so are their failures."""
        cell = made.get(id(value))
        if cell is not None:
            return cell
        outer = self._row_of_fault
        if id(value) in late:
            self._row_of_fault = -1
        match value:
            case Old(slot):
                bits = self.b.load(self._bits[slot])
                if bits.type == DOUBLE:
                    bits = self.w.as_bits(bits)
                mark = known.get(slot)
                null = self.b.load(self._marks[slot]) if mark is None else truth(mark)
                cell = Cell(bits, null)
            case Constant(bits, mark):
                cell = Cell(number(bits), truth(mark))
            case Weight(column):
                cell = self._weight(column)
            case Code():
                cell = self._code(value, known, made, late)
            case Fold():
                cell = self._fold(value, known, made, late)
        self._row_of_fault = outer
        made[id(value)] = cell
        return cell

    def _weight(self, index: int) -> Cell:
        row = self.b.load(self._row)
        null = truth(0)
        if index in self.nodes.nullable:
            mark = self.b.load(self.b.gep(self._weight_marks[index], [row]))
            null = self.b.icmp_unsigned("!=", mark, ir.Constant(I8, 0))
        return Cell(self.b.load(self.b.gep(self._weights[index], [row])), null)

    def _code(
        self, value: Code, known: dict[int, int], made: dict[int, Cell], late: frozenset[int]
    ) -> Cell:
        inputs = {c: self._value(v, known, made, late) for c, v in value.inputs}
        code = self.program.code
        return self.w.run(code, value.begin, value.end, self._contents, inputs, value.cell)

    def _contents(self, cell: int) -> Cell:
        return Cell(
            number(int(self.program.cells[cell])), truth(bool(self.program.cell_nulls[cell]))
        )

    def _fold(
        self, value: Fold, known: dict[int, int], made: dict[int, Cell], late: frozenset[int]
    ) -> Cell:
        state = [self._value(v, known, made, late) for v in value.slots]
        given = [self._value(v, known, made, late) for v in value.weights]
        slot, weight = state[0], given[0]
        w, b, fold = self.w, self.b, value.fold
        valid = w.negated(weight.null)
        if fold in (vm.COUNT, vm.ROWS):
            before = w.select(slot.null, number(0), slot.bits)
            return Cell(
                b.add(before, number(1) if fold == vm.ROWS else b.zext(valid, I64)), truth(0)
            )
        if fold == vm.MOMENTS:
            return self._moments(state, weight, value.part)
        if fold in (vm.ARGMAX, vm.ARGMIN):
            pair = (slot, weight) if fold == vm.ARGMAX else (weight, slot)
            better = w.less(pair[0].bits, pair[1].bits, value.floating)
            takes = w.both(valid, w.either(slot.null, better))
            old, new = state[value.part], given[value.part]
            if value.part == 0:
                return Cell(w.select(takes, new.bits, old.bits), w.both(old.null, w.negated(takes)))
            null = w.select(takes, new.null, old.null)
            return Cell(w.select(takes, new.bits, old.bits), null)
        bits = self._folded(fold, value.floating, slot, weight)
        bits = w.select(weight.null, slot.bits, w.select(slot.null, weight.bits, bits))
        return Cell(bits, w.both(slot.null, weight.null))

    def _folded(self, fold: int, floating: bool, slot: Cell, weight: Cell) -> Number:
        """Of two that are not null."""
        w, b = self.w, self.b
        both = w.negated(w.either(slot.null, weight.null))
        if fold in (vm.SUM, vm.PRODUCT):
            if floating:
                made = b.fadd if fold == vm.SUM else b.fmul
                return w.as_bits(made(w.as_float(slot.bits), w.as_float(weight.bits)))
            name = "add" if fold == vm.SUM else "mul"
            return w.checked(name, slot.bits, weight.bits, both)
        if fold in (vm.MAX, vm.MIN):
            pair = (slot, weight) if fold == vm.MAX else (weight, slot)
            better = w.less(pair[0].bits, pair[1].bits, floating)
            return b.select(better, weight.bits, slot.bits)
        if fold in (vm.ANY, vm.ALL):
            return (b.or_ if fold == vm.ANY else b.and_)(slot.bits, weight.bits)
        return weight.bits if fold == vm.LAST else slot.bits

    def _moments(self, state: list[Cell], weight: Cell, part: int) -> Cell:
        w, b = self.w, self.b
        count, mean, squares = (w.select(cell.null, number(0), cell.bits) for cell in state)
        many = b.add(count, number(1))
        distance = b.fsub(w.as_float(weight.bits), w.as_float(mean))
        moved = b.fadd(w.as_float(mean), b.fdiv(distance, b.sitofp(many, DOUBLE)))
        further = b.fmul(distance, b.fsub(w.as_float(weight.bits), moved))
        spread = b.fadd(w.as_float(squares), further)
        new = (many, w.as_bits(moved), w.as_bits(spread))[part]
        return Cell(w.select(weight.null, (count, mean, squares)[part], new), truth(0))

    # -- memory ----------------------------------------------------------------------------------

    def _pointer(self, value: Number, kind: Any) -> Number:
        return self.b.inttoptr(value, kind.as_pointer())

    def _argument(self, name: str, kind: Any = I64) -> Number:
        return self._pointer(self._arguments[name], kind)

    def _store(self, slot: int, cell: Cell) -> None:
        bits = cell.bits
        if self._bits[slot].type.pointee == DOUBLE:
            bits = self.w.as_float(bits)
        self.b.store(bits, self._bits[slot])
        self.b.store(cell.null, self._marks[slot])

    def _fault(self, when: Number, kind: int) -> None:
        """Out of the walk where `when` holds, with the row of the event."""
        if isinstance(when, ir.Constant) and not when.constant:
            return
        b = self.b
        broken, on = b.append_basic_block("broken"), b.append_basic_block("on")
        b.cbranch(when, broken, on)
        b.position_at_end(broken)
        row = b.load(self._row)
        if self._row_of_fault:
            row = b.add(row, number(-1))
        b.store(row, b.gep(self._argument("place"), [number(ROW)]))
        b.store(number(kind), self._kind)
        b.branch(self._broken)
        b.position_at_end(on)


class Letters:
    """`letters(rows, out, bits of columns..., marks of columns...)`: sets bits of each letter."""

    def __init__(
        self, module: ir.Module, conditions: Conditions, nullable: frozenset[int], wide: bool
    ) -> None:
        letter = ir.IntType(16 if wide else 8)
        function = ir.Function(module, ir.FunctionType(I64, [I64.as_pointer()]), "letters")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        given = function.args[0]
        count = len(conditions.columns)

        def argument(index: int, kind: Any) -> Number:
            bits = b.load(b.gep(given, [number(index)]))
            return b.inttoptr(bits, kind.as_pointer())

        rows = b.load(given)
        out = argument(1, letter)
        bits = [argument(2 + i, I64) for i in range(count)]
        marks = [argument(2 + count + i, I8) for i in range(count)]
        head, body, over = (b.append_basic_block(name) for name in ("head", "body", "over"))
        entry = b.block
        b.branch(head)
        b.position_at_end(head)
        row = b.phi(I64)
        row.add_incoming(number(0), entry)
        b.cbranch(b.icmp_signed("<", row, rows), body, over)
        b.position_at_end(body)
        writer = Writer(b, _never)
        columns = []
        for index in range(count):
            null = truth(0)
            if index in nullable:
                mark = b.load(b.gep(marks[index], [row]))
                null = b.icmp_unsigned("!=", mark, ir.Constant(I8, 0))
            columns.append(Cell(b.load(b.gep(bits[index], [row])), null))
        place = b.gep(out, [row])
        found: Number = b.load(place)
        for bit, (begin, end, result) in conditions.codes.items():
            inputs = {cell: columns[i] for cell, i in conditions.cells.items()}
            cell = writer.run(conditions.code, begin, end, conditions.contents, inputs, result)
            holds = b.and_(b.icmp_signed("!=", cell.bits, number(0)), writer.negated(cell.null))
            found = b.or_(found, b.shl(b.zext(holds, letter), ir.Constant(letter, bit)))
        b.store(found, place)
        row.add_incoming(b.add(row, number(1)), b.block)
        b.branch(head)
        b.position_at_end(over)
        b.ret(number(DONE))


def _never(when: Number, kind: int) -> None:
    raise TooHardError("a predicate that can fail")


def _weights(nodes: Nodes) -> list[int]:
    """Inputs that folds read."""
    actions = nodes.program.actions
    return [int(w) for row in actions for w in row[2:4] if w >= 0]


def _float_slots(program: vm.Program) -> set[int]:
    found = set()
    for move in program.moves.tolist():
        target, begin, end = move[3:6]
        own = int(program.own[target])
        for code, slot, *_ in program.actions[begin:end].tolist():
            if code & 1:
                first = 1 if code >> 1 == vm.MOMENTS else 0
                found |= {own + slot + first, own + slot + (2 if first else 0)}
    return found
