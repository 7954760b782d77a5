// Moves the virtual clock for programs that wait without polling.
//
// On the automatic clock every empty poll moves time. A program that blocks in ibv_get_cq_event(),
// or for IBV_EVENT_SQ_DRAINED, polls nothing: while such a wait is possible a background thread
// lets virtual time pass as real time does. It only does so while something waits for a deadline,
// and never on the manual clock.
#ifndef QPEXAM_REFERENCE_PROVIDER_TICKER_H_
#define QPEXAM_REFERENCE_PROVIDER_TICKER_H_

namespace qpexam::provider {

// From now on somebody may block: a completion channel was made, a drain notification asked for.
void AddBlockingWait();
// That wait cannot happen any more.
void RemoveBlockingWait();

// On the manual clock the thread sleeps for good: it takes no lock that a fork() could find taken.
void StopTicking();
void GoOnTicking();

}  // namespace qpexam::provider

#endif  // QPEXAM_REFERENCE_PROVIDER_TICKER_H_
