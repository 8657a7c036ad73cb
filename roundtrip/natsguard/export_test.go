package natsguard

import "time"

// Counts reports whether units of a ledger count, a time after the end of their slot.
func Counts(after time.Duration) bool {
	l := ledger{1: 1}
	l.removeEnded(endOf(1).Add(after))
	return l.countUnits() == 1
}
