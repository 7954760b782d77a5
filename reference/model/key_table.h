// Tables from keys and numbers to objects: dense where the model chose the number, a map where the
// caller did.
#ifndef QPEXAM_REFERENCE_MODEL_KEY_TABLE_H_
#define QPEXAM_REFERENCE_MODEL_KEY_TABLE_H_

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace qpexam::model {

// Objects by a 24-bit number. Numbers are handed out in order and not used again before the table
// has wrapped, so that a stale number finds nobody.
template <typename T>
class NumberTable {
 public:
  T* Find(uint32_t number) const {
    if (number < dense_.size()) return dense_[number];
    if (sparse_.empty()) return nullptr;
    auto it = sparse_.find(number);
    return it == sparse_.end() ? nullptr : it->second;
  }
  // A free number; reuses ended ones only after kFresh new ones.
  uint32_t Reserve() {
    for (;;) {
      if (next_ >= kFresh) next_ = kFirst;
      const uint32_t number = next_++;
      if (Find(number) == nullptr) return number;
    }
  }
  // False where the number is taken.
  bool Insert(uint32_t number, T* object) {
    if (Find(number) != nullptr) return false;
    if (number < kFresh) {
      if (number >= dense_.size()) dense_.resize(number + 64, nullptr);
      dense_[number] = object;
    } else {
      sparse_[number] = object;
    }
    return true;
  }
  void Erase(uint32_t number) {
    if (number < dense_.size()) {
      dense_[number] = nullptr;
    } else {
      sparse_.erase(number);
    }
  }

 private:
  static constexpr uint32_t kFirst = 0x11, kFresh = 1 << 16;
  std::vector<T*> dense_;
  std::unordered_map<uint32_t, T*> sparse_;
  uint32_t next_ = kFirst;
};

// Objects by a 32-bit key: 24 bits of index, 8 of tag. An entry is found by its whole key, or by
// its index alone (windows change their tag).
template <typename T>
class KeyTable {
 public:
  T* Find(uint32_t key) const {
    const Entry* e = FindEntry(key >> 8);
    return e != nullptr && e->key == key ? e->object : nullptr;
  }
  T* FindByIndex(uint32_t key) const {
    const Entry* e = FindEntry(key >> 8);
    return e != nullptr ? e->object : nullptr;
  }
  bool Insert(uint32_t key, T* object) {
    if (FindEntry(key >> 8) != nullptr) return false;
    const uint32_t index = key >> 8;
    if (index < kDense) {
      if (index >= dense_.size()) dense_.resize(index + 64);
      dense_[index] = Entry{key, object};
    } else {
      sparse_[index] = Entry{key, object};
    }
    return true;
  }
  // The same object under another tag.
  void Retag(uint32_t key) {
    if (Entry* e = const_cast<Entry*>(FindEntry(key >> 8))) e->key = key;
  }
  void Erase(uint32_t key) {
    const uint32_t index = key >> 8;
    if (index < dense_.size()) {
      dense_[index] = Entry{};
    } else {
      sparse_.erase(index);
    }
  }

 private:
  struct Entry {
    uint32_t key = 0;
    T* object = nullptr;
  };
  const Entry* FindEntry(uint32_t index) const {
    if (index < dense_.size()) return dense_[index].object != nullptr ? &dense_[index] : nullptr;
    if (sparse_.empty()) return nullptr;
    auto it = sparse_.find(index);
    return it == sparse_.end() ? nullptr : &it->second;
  }
  static constexpr uint32_t kDense = 1 << 18;
  std::vector<Entry> dense_;
  std::unordered_map<uint32_t, Entry> sparse_;
};

}  // namespace qpexam::model

#endif  // QPEXAM_REFERENCE_MODEL_KEY_TABLE_H_
