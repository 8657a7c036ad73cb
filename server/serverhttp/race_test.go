//go:build race

package serverhttp_test

// raceEnabled says that memory is not measured: the race detector needs some of its own.
const raceEnabled = true
