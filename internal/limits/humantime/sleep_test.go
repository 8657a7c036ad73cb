package humantime_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/humantime"
)

func TestSleepEndsWithItsContext(t *testing.T) {
	stop := errors.New("the cause of a test")
	for _, test := range []struct {
		name  string
		after time.Duration // until the context ends
		want  error
		took  time.Duration
	}{
		{"not at all", 2 * time.Minute, nil, time.Minute},
		{"while it lasts", time.Second, stop, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				timer := time.AfterFunc(test.after, func() { cancel(stop) })
				defer timer.Stop()
				start := time.Now()
				if err := humantime.Sleep(ctx, time.Minute); err != test.want {
					t.Errorf("got %v, want %v", err, test.want)
				}
				if took := time.Since(start); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
			})
		})
	}
}
