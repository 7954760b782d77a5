#!/usr/bin/env python3
"""Every outcome of a litmus shape under three models of order; beside the data it checks that the data is complete.

enumerate.py shapes.tsv [SHAPE...]    prints the sets
enumerate.py --check shapes.tsv       exits 1 where `allowed` is not the union of the three sets

Independent of the reference's model (reference/model): another language, another author's reading, explicit events and
their partial order instead of an engine. It shows that the sets are complete given the rules; it is no evidence for
the rules. Not in it: crashes, loss, torn words, keys, relaxed ordering.

  table   the weakest reading of IBA: the requester's order table (10.8.3.3) with its fence cells open; a polling CPU may
          see WRITEs to different places in any order unless an ordering point lies between (a receive completion, an
          atomic, ATOMIC_WRITE, FLUSH, READ)
  order   the same, and the responder executes atomics in message order (9.5)
  tso     RDMA^TSO as published: a queue pair's remote writes drain in order, remote reads are unordered, the CPU is TSO

Steps: st LOC VALUE, ld REG LOC, rmw REG LOC ADDEND (CPU); w Q DST SRC, wl Q DST VALUE (inline), wi Q DST SRC (with
immediate), r Q DST SRC, fadd Q DST LOC ADDEND, cas Q DST LOC COMPARE SWAP, aw Q LOC VALUE, flush Q, s Q SRC SLOT, each
with F at its end for a fence; poll Q (its next completion), recv Q (its next receive completion), oob TAG and await TAG
(another channel). Threads are parted by ||, steps by ;.
"""

import fnmatch
import sys

MODELS = ("table", "order", "tso")
READS = ("r", "fadd", "cas")
ATOMICS = ("fadd", "cas")
WIRE = ("w", "wl", "wi", "r", "fadd", "cas", "aw", "flush", "s")


class Events:
    """Events and, for each, the set of those that must come before it."""

    def __init__(self):
        self.what, self.before = [], []

    def add(self, *what):
        self.what.append(what or ("nothing",))
        self.before.append(set())
        return len(self.what) - 1

    def order(self, first, then):
        if first is not None and then is not None:
            self.before[then].add(first)


def request(events, step, posted):
    """The phases of one request, by name: reads of a source, arrival, update of memory, completion."""
    fence = step[-1] == "F"
    kind = step[0]
    key = len(events.what)  # what a request carries is kept under its first event
    one = {"kind": kind, "fence": fence, "place": None}
    if kind in ("w", "wi", "s"):
        source, one["place"] = (step[3], step[2]) if kind != "s" else (step[2], step[3])
        one["first"] = one["read"] = events.add("take", key, source)
        one["arrive"] = events.add()
        one["update"] = events.add("put", key, one["place"])
        chain = (one["read"], one["arrive"], one["update"])
        one["done"] = one["arrive"]
    elif kind in ("wl", "aw"):
        one["place"] = step[2]
        one["first"] = one["read"] = events.add("value", key, int(step[3]))
        one["arrive"] = events.add()
        one["update"] = events.add("put", key, one["place"])
        chain = (one["read"], one["arrive"], one["update"])
        one["done"] = one["arrive"]
    elif kind == "r":
        one["first"] = one["far"] = events.add("take", key, step[3])
        one["done"] = one["back"] = events.add("put", key, step[2])
        chain = (one["far"], one["back"])
    elif kind in ATOMICS:
        operands = tuple(int(x) for x in step[4:] if x != "F")
        one["place"] = step[3]
        one["first"] = one["far"] = events.add("lock", key, step[3])
        one["update"] = events.add("modify", key, step[3], kind, operands)
        one["done"] = one["back"] = events.add("put", key, step[2])
        chain = (one["far"], one["update"], one["back"])
    else:  # flush
        one["first"] = one["done"] = one["placed"] = events.add()
        chain = (one["placed"],)
    events.order(posted, one["first"])
    for first, then in zip(chain, chain[1:]):
        events.order(first, then)
    one["complete"] = events.add()
    events.order(one["done"], one["complete"])
    if kind in ("s", "wi"):
        one["received"] = events.add()
        events.order(one["update"], one["received"])
    return one


def order_two(events, a, b, model):
    """What the earlier request a and the later b of one queue pair promise each other."""
    tso = model == "tso"
    plain = ("w", "wi", "wl", "s")
    events.order(a["complete"], b["complete"])
    if tso and "read" in a and "read" in b:
        events.order(a["read"], b["read"])
    if "arrive" in a and "arrive" in b:
        events.order(a["arrive"], b["arrive"])
    if b["fence"] and a["kind"] in READS:
        events.order(a["back"], b["first"])
    if a["kind"] in plain or a["kind"] == "aw":
        if b["kind"] in READS:
            events.order(a["update"], b["far"])
        if b["kind"] == "flush":
            events.order(a["update"], b["placed"])
        if b["kind"] == "aw":
            events.order(a["update"], b["update"])
        if "received" in b:
            events.order(a["update"], b["received"])
        if b["kind"] in plain and (tso or a["place"] == b["place"]):
            events.order(a["update"], b["update"])
    if a["kind"] in ATOMICS:
        if b["kind"] == "r":
            events.order(a["update"], b["far"])
        if b["kind"] in ("flush", "aw"):
            events.order(a["update"], b.get("placed", b.get("update")))
        if model != "table" and "update" in b:
            events.order(a["update"], b["far"] if b["kind"] in READS else b["update"])
    if a["kind"] == "r":
        if b["kind"] == "r":
            events.order(a["back"], b["back"])
            if not tso:
                events.order(a["far"], b["far"])
        if b["kind"] == "aw":
            events.order(a["far"], b["update"])
    if a["kind"] == "flush" and b["kind"] in ("aw", "flush"):
        events.order(a["placed"], b.get("update", b.get("placed")))
    if "received" in a and "received" in b:
        events.order(a["received"], b["received"])


def build(threads, model):
    events = Events()
    queues, polls, receives, told, waiting = {}, {}, {}, {}, []
    for thread, steps in enumerate(threads):
        previous, stores = None, []
        for step in steps:
            kind = step[0]
            if kind == "st":
                here = events.add("store", thread, step[1], int(step[2]))
                drained = events.add("drain", thread, step[1], int(step[2]))
                events.order(here, drained)
                if stores:
                    events.order(stores[-1], drained)
                stores.append(drained)
            elif kind == "ld":
                here = events.add("load", thread, step[1], step[2])
            elif kind == "rmw":
                here = events.add("rmw", step[1], step[2], int(step[3]))
                for store in stores:
                    events.order(store, here)
            else:
                here = events.add()
                if kind == "poll":
                    polls.setdefault(step[1], []).append(here)
                elif kind == "recv":
                    receives.setdefault(step[1], []).append(here)
                elif kind == "await":
                    waiting.append((here, step[1]))
                else:  # posting and telling drain the thread's stores
                    for store in stores:
                        events.order(store, here)
                    if kind == "oob":
                        told[step[1]] = here
                    elif kind in WIRE:
                        queues.setdefault(step[1], []).append(request(events, step, here))
                    else:
                        raise ValueError(f"unknown step {' '.join(step)}")
            events.order(previous, here)
            previous = here
    for queue, requests in queues.items():
        for i, later in enumerate(requests):
            for earlier in requests[:i]:
                order_two(events, earlier, later, model)
        for here, one in zip(polls.get(queue, []), requests):
            events.order(one["complete"], here)
        for here, one in zip(receives.get(queue, []), [r for r in requests if "received" in r]):
            events.order(one["received"], here)
    for here, tag in waiting:
        events.order(told[tag], here)
    return events


def outcomes(shape, model):
    """The set of tuples of what the shape shows."""
    events = build(shape["threads"], model)
    masks = [sum(1 << e for e in before) for before in events.before]
    everything = (1 << len(masks)) - 1
    found, seen = set(), set()
    stack = [(0, tuple(sorted(shape["init"].items())), (), (), (), None)]
    while stack:
        state = stack.pop()
        if state in seen:
            continue
        seen.add(state)
        done, memory, carried, registers, buffer, locked = state
        if done == everything:
            values = {**dict(memory), **dict(registers)}
            found.add(tuple(values.get(name) for name in shape["show"]))
            continue
        for i, what in enumerate(events.what):
            if done >> i & 1 or masks[i] & ~done:
                continue
            m, c, r, b, lock = dict(memory), dict(carried), dict(registers), list(buffer), locked
            kind = what[0]
            if kind == "store":
                b.append(what[1:])
            elif kind == "drain":
                b.remove(what[1:])
                m[what[2]] = what[3]
            elif kind == "load":
                own = [v for thread, place, v in b if thread == what[1] and place == what[3]]
                r[what[2]] = own[-1] if own else m[what[3]]
            elif kind == "rmw":
                r[what[1]] = m[what[2]]
                m[what[2]] += what[3]
            elif kind == "take":
                c[what[1]] = m[what[2]]
            elif kind == "value":
                c[what[1]] = what[2]
            elif kind == "put":
                m[what[2]] = c[what[1]]
            elif kind == "lock":  # atomics exclude atomics, nothing else
                if lock is not None:
                    continue
                lock = what[1]
                c[what[1]] = m[what[2]]
            elif kind == "modify":
                lock = None
                old, operands = c[what[1]], what[4]
                if what[3] == "fadd":
                    m[what[2]] = old + operands[0]
                elif old == operands[0]:
                    m[what[2]] = operands[1]
            pack = lambda d: tuple(sorted(d.items()))
            stack.append((done | 1 << i, pack(m), pack(c), pack(r), tuple(b), lock))
    return found


def read(path):
    shapes = {}
    with open(path, encoding="utf-8") as file:
        header = file.readline().rstrip("\n").split("\t")
        for line in file:
            row = dict(zip(header, line.rstrip("\n").split("\t")))
            if row["program"] == "-":
                continue
            row["init"] = {k: int(v) for k, v in (item.split("=") for item in row["init"].split())}
            row["threads"] = [[step.split() for step in thread.split(";")] for thread in row["program"].split("||")]
            row["show"] = row["show"].split()
            shapes[row["id"]] = row
    return shapes


def text(found):
    return " ".join(sorted(",".join(map(str, one)) for one in found))


def main(arguments):
    check = arguments[:1] == ["--check"]
    arguments = arguments[check:]
    if not arguments:
        sys.exit(__doc__)
    shapes = read(arguments[0])
    wrong = 0
    for name, shape in shapes.items():
        if arguments[1:] and name not in arguments[1:]:
            continue
        sets = {model: outcomes(shape, model) for model in MODELS}
        union = set().union(*sets.values())
        if not check:
            print(name, "/".join(shape["show"]), " | ".join(f"{m}: {text(s)}" for m, s in sets.items()))
            continue
        if shape["allowed"] != "*" and text(union) != " ".join(sorted(shape["allowed"].split())):
            print(f"{name}: allowed is {shape['allowed']}, enumerated is {text(union)}")
            wrong += 1
        for pattern in shape["forbidden"].split():
            bad = [one for one in text(union).split() if pattern != "-" and fnmatch.fnmatchcase(one, pattern)]
            if bad:
                print(f"{name}: {pattern} is forbidden, and enumerated: {' '.join(bad)}")
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
