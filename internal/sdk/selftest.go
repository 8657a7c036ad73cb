// Package sdk is the part of the adapters for SDKs that does not depend on the SDK: the run of the
// checks with which an adapter starts, and the log of a funnel whose host has set no observer.
package sdk

// This file runs the checks with which an adapter for an SDK starts. An adapter
// relies on more than the SDK documents; each such thing has a check that tries it on
// servers and clients of its own. A release of the SDK that behaves differently is then
// refused when the program starts, and not noticed by a person who is asked twice, or by a
// handler that goes on without an answer.

import (
	"context"
	"fmt"
	"time"
)

// timeout bounds all checks of an adapter together. They take some milliseconds.
const timeout = 10 * time.Second

// A Check tries one thing that an adapter relies on.
type Check struct {
	// Name says what is relied on. It is the beginning of the error.
	Name string
	// Run returns an error if it is not so. Its context ends after a bound on all checks.
	Run func(context.Context) error
}

// Run runs the checks in order. It returns the error of the first that fails, with its
// name. A check that panics fails.
func Run(checks []Check) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for _, c := range checks {
		if err := c.runRecovered(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

// runRecovered turns a panic of the SDK on this goroutine into an error.
func (c Check) runRecovered(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return c.Run(ctx)
}

// Equal returns an error if got is not want, nil else.
func Equal(got, want string) error {
	if got != want {
		return fmt.Errorf("got %.200q, want %q", got, want)
	}
	return nil
}
