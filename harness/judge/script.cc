#include "harness/judge/script.h"

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "harness/program/parse.h"
#include "harness/trace/names.h"

namespace qpexam::judge {
namespace {

// "key=value" -> value
std::optional<std::string> After(const std::string& word, std::string_view key) {
  if (word.size() <= key.size() || word.compare(0, key.size(), key) != 0 ||
      word[key.size()] != '=') {
    return std::nullopt;
  }
  return word.substr(key.size() + 1);
}

uint64_t Number(const std::string& s) { return std::strtoull(s.c_str(), nullptr, 0); }

struct Reader {
  Script script;

  bool Fail(const std::string& line, const std::string& why) {
    if (script.error.empty()) script.error = line + ": " + why;
    return false;
  }

  ObjectId Object(const std::string& name) {
    const auto id = ObjectFromWord(script.program, name);
    if (!id) {
      Fail(name, "no such object");
      return kNoObject;
    }
    return *id;
  }

  bool Note(Event* e, const std::string& line) {
    std::istringstream in(line);
    std::vector<std::string> words;
    for (std::string w; in >> w;) words.push_back(w);
    if (words.empty()) return Fail(line, "empty");
    Trace& t = script.trace;
    const Call* call = e->call == kEndOfRun ? nullptr : &script.program.calls[e->call];
    const std::string& kind = words[0];
    if (auto v = After(kind, "rc")) {
      e->rc = static_cast<int>(std::strtol(v->c_str(), nullptr, 0));
    } else if (auto v = After(kind, "count")) {
      e->count = static_cast<uint32_t>(Number(*v));
    } else if (kind == "settled") {
      e->settled = true;
    } else if (kind == "timed_out") {
      e->timed_out = true;
    } else if (auto v = After(kind, "ran")) {
      const auto ran = RanFromWord(*v);
      if (!ran) return Fail(line, "ran?");
      e->ran = *ran;
    } else if (auto v = After(kind, "granted")) {
      std::istringstream list(*v);
      std::string part;
      for (int i = 0; i < 5 && std::getline(list, part, ','); ++i) {
        e->granted[i] = static_cast<uint32_t>(Number(part));
      }
    } else if (kind == "wc") {
      if (words.size() < 4) return Fail(line, "wc QP WR_ID STATUS [OPCODE]");
      SeenCompletion wc;
      wc.qp = words[1] == "?" ? kNoObject : Object(words[1]);
      wc.wr_id = Number(words[2]);
      const auto status = WcStatusFromWord(words[3]);
      if (!status) return Fail(line, "status?");
      wc.status = static_cast<ibv_wc_status>(*status);
      if (call) wc.cq = {call->object, call->side};
      for (size_t i = 4; i < words.size(); ++i) {
        if (auto v = After(words[i], "len")) {
          wc.byte_len = static_cast<uint32_t>(Number(*v));
        } else if (auto v = After(words[i], "imm")) {
          wc.imm = static_cast<uint32_t>(Number(*v));
          wc.wc_flags |= IBV_WC_WITH_IMM;
        } else if (auto v = After(words[i], "flags")) {
          wc.wc_flags = static_cast<unsigned>(Number(*v));
        } else if (auto v = After(words[i], "src")) {
          wc.src_qp = Object(*v);
        } else if (auto v = After(words[i], "inv")) {
          const size_t plus = v->find('+');
          wc.invalidated = Object(v->substr(0, plus));
          if (plus != std::string::npos) {
            wc.invalidated_inc = static_cast<uint8_t>(Number(v->substr(plus + 1)));
          }
          wc.wc_flags |= IBV_WC_WITH_INV;
        } else if (auto v = After(words[i], "cq")) {
          const auto cq = CqFromWord(script.program, *v);
          if (!cq) return Fail(line, "cq?");
          wc.cq = *cq;
        } else {
          const auto opcode = WcOpcodeFromWord(words[i]);
          if (!opcode) return Fail(line, words[i] + "?");
          wc.opcode = static_cast<ibv_wc_opcode>(*opcode);
        }
      }
      if (e->completions.count == 0) {
        e->completions.first = static_cast<uint32_t>(t.completions.size());
      }
      t.completions.push_back(wc);
      ++e->completions.count;
      ++e->count;
    } else if (kind == "mem") {
      if (words.size() != 4) return Fail(line, "mem MR OFFSET HEXBYTES");
      SeenMemory m;
      m.mr = Object(words[1]);
      m.offset = Number(words[2]);
      m.first = static_cast<uint32_t>(t.bytes.size());
      const std::string& hex = words[3];
      // "5a*16" is sixteen times 5a.
      const size_t star = hex.find('*');
      if (star != std::string::npos) {
        const auto byte =
            static_cast<uint8_t>(std::strtoul(hex.substr(0, star).c_str(), nullptr, 16));
        t.bytes.insert(t.bytes.end(), Number(hex.substr(star + 1)), byte);
      } else {
        for (size_t i = 0; i + 1 < hex.size(); i += 2) {
          t.bytes.push_back(
              static_cast<uint8_t>(std::strtoul(hex.substr(i, 2).c_str(), nullptr, 16)));
        }
      }
      m.size = static_cast<uint32_t>(t.bytes.size()) - m.first;
      if (e->memory.count == 0) e->memory.first = static_cast<uint32_t>(t.memory.size());
      t.memory.push_back(m);
      ++e->memory.count;
    } else if (kind == "state") {
      if (words.size() < 3) return Fail(line, "state QP STATE [cached=STATE]");
      SeenState s;
      s.qp = Object(words[1]);
      const auto state = QpStateFromWord(words[2]);
      if (!state) return Fail(line, "state?");
      s.state = s.cached = static_cast<int8_t>(*state);
      for (size_t i = 3; i < words.size(); ++i) {
        if (auto v = After(words[i], "cached")) {
          const auto cached = QpStateFromWord(*v);
          if (!cached) return Fail(line, "cached?");
          s.cached = static_cast<int8_t>(*cached);
        }
      }
      if (e->states.count == 0) e->states.first = static_cast<uint32_t>(t.states.size());
      t.states.push_back(s);
      ++e->states.count;
    } else if (kind == "value") {
      if (words.size() != 3) return Fail(line, "value FIELD N");
      if (e->values.count == 0) e->values.first = static_cast<uint32_t>(t.values.size());
      t.values.push_back({static_cast<uint16_t>(Number(words[1])), Number(words[2])});
      ++e->values.count;
    } else if (kind == "event") {
      const auto cq = CqFromWord(script.program, words.at(1));
      if (!cq) return Fail(line, "cq?");
      e->event_of = *cq;
      e->count = 1;
    } else if (kind == "async") {
      if (words.size() != 3) return Fail(line, "async TYPE OBJ");
      const auto type = AsyncEventFromWord(words[1]);
      if (!type) return Fail(line, "type?");
      e->async_type = static_cast<ibv_event_type>(*type);
      e->event_of.object = Object(words[2]);
      e->has_async = true;
      e->count = 1;
    } else {
      return Fail(line, "unknown");
    }
    return true;
  }
};

}  // namespace

Script ReadScript(const std::string& text) {
  Reader reader;
  // Lines of the Program keep their numbers; notes become empty lines.
  std::string program;
  struct NoteLine {
    uint32_t after;  // the line of the Program it belongs to; 0: the end of the run
    std::string text;
  };
  std::vector<NoteLine> notes;
  std::istringstream in(text);
  uint32_t number = 0, last = 0;
  bool end = false;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const size_t start = line.find_first_not_of(' ');
    const std::string bare = start == std::string::npos ? "" : line.substr(start);
    if (bare.compare(0, 2, "=>") == 0) {
      notes.push_back({end ? 0 : last, bare.substr(2)});
      program += "\n";
    } else if (bare == "end") {
      end = true;
      program += "\n";
    } else {
      if (!bare.empty() && bare[0] != '#') last = number;
      program += line + "\n";
    }
  }
  ParseResult parsed = ParseProgram(program, "script");
  if (!parsed.ok) {
    reader.script.error = parsed.error.Message();
    return reader.script;
  }
  reader.script.program = std::move(parsed.program);
  Program& p = reader.script.program;
  Trace& t = reader.script.trace;
  t.provider = "script";
  size_t next = 0;
  for (uint32_t i = 0; i < p.calls.size(); ++i) {
    const Call& call = p.calls[i];
    Event e;
    e.call = i;
    switch (call.kind) {
      case CallKind::kQp:
        e.granted[0] = static_cast<uint32_t>(call.sq);
        e.granted[1] = static_cast<uint32_t>(call.rq);
        e.granted[2] = static_cast<uint32_t>(call.sge_max);
        e.granted[3] = static_cast<uint32_t>(call.recv_sge_max);
        e.granted[4] = static_cast<uint32_t>(call.inline_max);
        break;
      case CallKind::kCq:
        e.granted[0] = static_cast<uint32_t>(call.n);
        break;
      case CallKind::kSrq:
        e.granted[0] = static_cast<uint32_t>(call.n);
        e.granted[1] = static_cast<uint32_t>(call.sge_max);
        break;
      case CallKind::kSettle:
        e.settled = true;
        break;
      default:
        break;
    }
    while (next < notes.size() && notes[next].after == call.line) {
      reader.Note(&e, notes[next++].text);
    }
    t.events.push_back(e);
  }
  Event e;
  e.call = kEndOfRun;
  e.settled = true;
  while (next < notes.size() && notes[next].after == 0) reader.Note(&e, notes[next++].text);
  if (next != notes.size()) reader.Fail(notes[next].text, "belongs to no call");
  if (end) t.events.push_back(e);
  return reader.script;
}

}  // namespace qpexam::judge
