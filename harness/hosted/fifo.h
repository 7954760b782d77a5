// A queue whose storage stays: what is taken out at the front makes room only when there is need,
// so that entries that come and go in turns allocate nothing (a std::deque does, now and then, and
// under a sanitizer each allocation is dear).
#ifndef QPEXAM_HARNESS_HOSTED_FIFO_H_
#define QPEXAM_HARNESS_HOSTED_FIFO_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace qpexam::hosted {

template <typename T>
class Fifo {
 public:
  bool empty() const { return first_ == all_.size(); }
  size_t size() const { return all_.size() - first_; }
  T* begin() { return all_.data() + first_; }
  T* end() { return all_.data() + all_.size(); }
  const T* begin() const { return all_.data() + first_; }
  const T* end() const { return all_.data() + all_.size(); }
  T& operator[](size_t i) { return all_[first_ + i]; }
  T& front() { return all_[first_]; }
  T& back() { return all_.back(); }

  void push_back(const T& value) {
    MakeRoom();
    all_.push_back(value);
  }
  T& emplace_back() {
    MakeRoom();
    return all_.emplace_back();
  }
  void pop_back() {
    all_.pop_back();
    Rewind();
  }
  void pop_front(size_t count = 1) {
    first_ += count;
    Rewind();
  }
  void erase(T* at) {
    if (at == begin()) {
      pop_front();
    } else {
      erase(at, at + 1);
    }
  }
  void erase(T* from, T* to) {
    all_.erase(all_.begin() + (from - all_.data()), all_.begin() + (to - all_.data()));
    Rewind();
  }
  void clear() {
    all_.clear();
    first_ = 0;
  }

 private:
  void MakeRoom() {
    // At least half of it is room in front: moving the rest there pays.
    if (all_.size() == all_.capacity() && first_ * 2 > all_.size()) {
      all_.erase(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
  }
  void Rewind() {
    if (empty()) clear();
  }

  std::vector<T> all_;
  size_t first_ = 0;  // those before it are gone
};

}  // namespace qpexam::hosted

#endif  // QPEXAM_HARNESS_HOSTED_FIFO_H_
