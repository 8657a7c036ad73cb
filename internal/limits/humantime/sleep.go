package humantime

// This file waits under a context.

import (
	"context"
	"time"
)

// Sleep waits for d. It returns early, with the cause of ctx, if ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
