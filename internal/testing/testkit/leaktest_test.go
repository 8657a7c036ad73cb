package testkit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// A fake is a test that records failures and cleanups.
type fake struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (f *fake) Helper()                   {}
func (f *fake) Cleanup(fn func())         { f.cleanups = append(f.cleanups, fn) }
func (f *fake) Errorf(s string, _ ...any) { f.failures = append(f.failures, s) }

func TestCheckReportsGoroutinesThatStay(t *testing.T) {
	for stays, limit := range map[bool]time.Duration{false: 5 * time.Second,
		true: 20 * time.Millisecond} {
		f, stop := &fake{}, make(chan struct{})
		testkit.CheckWithin(f, limit)
		go func() { <-stop }()
		if !stays {
			close(stop)
		}
		f.cleanups[0]()
		if stays {
			close(stop)
		}
		if got := strings.Join(f.failures, "|"); strings.Contains(got, "left over") != stays ||
			len(f.failures) > 1 {
			t.Errorf("stays %v: failures = %q", stays, got)
		}
	}
}
