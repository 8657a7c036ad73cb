package testkit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// fake records failures and cleanups instead of acting on them.
type fake struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (f *fake) Helper()                   {}
func (f *fake) Cleanup(fn func())         { f.cleanups = append(f.cleanups, fn) }
func (f *fake) Errorf(s string, _ ...any) { f.failures = append(f.failures, s) }

func TestCheckAcceptsAGoroutineThatEnds(t *testing.T) {
	f := &fake{}
	testkit.CheckLeaks(f)
	done := make(chan struct{})
	go func() { <-done }()
	close(done)
	f.cleanups[0]()
	if len(f.failures) != 0 {
		t.Errorf("a goroutine that ends was reported: %q", f.failures)
	}
}

func TestCheckReportsAGoroutineThatStays(t *testing.T) {
	f := &fake{}
	testkit.CheckWithin(f, 20*time.Millisecond)
	stop := make(chan struct{})
	go func() { <-stop }()
	f.cleanups[0]()
	close(stop)
	if len(f.failures) != 1 || !strings.Contains(f.failures[0], "left over") {
		t.Errorf("failures = %q, want one that names what was left over", f.failures)
	}
}
