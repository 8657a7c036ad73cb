package natstest

import (
	"fmt"
	"sync"
)

// fatal is a log that keeps nothing but why a server cannot go on, which the
// server tells nobody else.
type fatal struct {
	mu  sync.Mutex
	err error
}

func (*fatal) Noticef(string, ...any) {}
func (*fatal) Warnf(string, ...any)   {}
func (*fatal) Errorf(string, ...any)  {}
func (*fatal) Debugf(string, ...any)  {}
func (*fatal) Tracef(string, ...any)  {}

func (f *fatal) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err = cause
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

// failure is the first thing that the server could not go on after, or nil.
func (f *fatal) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
