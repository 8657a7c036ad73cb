package testkit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// hangEnv names the hang that a child process runs.
const hangEnv = "LEAKTEST_HANG"

func TestMain(m *testing.M) {
	if os.Getenv(hangEnv) != "" {
		testkit.MainWithin(m, childLimit())
	}
	testkit.Main(m)
}

// childLimit is long with the tag slow, because the runtime may then use more of the CPU share.
func childLimit() time.Duration {
	if testkit.Slow {
		return 2 * time.Second
	}
	return time.Second
}

// The variable hangs has tests that never end, with required parts of the waiting stacks.
var hangs = []struct {
	name string
	run  func(t *testing.T)
	want []string
}{
	{"a channel", func(*testing.T) { <-make(chan int) },
		[]string{"testkit_test.TestHangChild(", "chan receive"}},
	{"a cleanup", func(t *testing.T) {
		begun := make(chan int)
		web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(begun)
			receive(make(chan int))
		}))
		t.Cleanup(web.Close)
		go http.Get(web.URL)
		receive(begun)
	}, []string{"httptest.(*Server).Close"}},
	{"a bubble", func(t *testing.T) {
		r, w, err := os.Pipe()
		testkit.NoError(t, err)
		synctest.Test(t, func(*testing.T) { _, _ = r.Read(make([]byte, 1)) })
		runtime.KeepAlive(w) // a collected process would be closed
	}, []string{"hang_test.go", "IO wait"}},
	{"beside a busy test", func(t *testing.T) {
		t.Run("group", func(t *testing.T) {
			t.Run("waits", func(t *testing.T) { t.Parallel(); receive(make(chan int)) })
			t.Run("ends", func(t *testing.T) { t.Parallel(); burn(2 * childLimit()) })
		})
	}, []string{"testkit_test.receive("}},
	{"a program that works", func(t *testing.T) {
		if err := exec.Command("sleep", fmt.Sprint(2*childLimit().Seconds())).Run(); err != nil {
			t.Error(err)
		}
	}, nil},
	{"much to do", func(*testing.T) { burn(2 * childLimit()) }, nil},
}

func receive(c chan int) int { return <-c }

func burn(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}

func TestHangChild(t *testing.T) {
	for _, hang := range hangs {
		if hang.name == os.Getenv(hangEnv) {
			hang.run(t)
		}
	}
}

func TestHangsFailWithAName(t *testing.T) {
	for _, hang := range hangs {
		t.Run(hang.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestHangChild$", "-test.timeout=1m")
			cmd.Env = append(os.Environ(), hangEnv+"="+hang.name)
			out, err := cmd.CombinedOutput()
			if (err == nil) != (hang.want == nil) {
				t.Errorf("child ends with %v, output %s", err, out)
			}
			if strings.Contains(string(out), "test timed out") {
				t.Errorf("child ran into its timeout: %s", out)
			}
			_, waits, _ := strings.Cut(string(out), "--- FAIL: testkit: ")
			for _, want := range hang.want {
				if !strings.Contains(waits, want) {
					t.Errorf("%q is not in the stacks of tests that wait: %s", want, out)
				}
			}
		})
	}
}

func TestIdle(t *testing.T) {
	const limit = 10 * time.Second
	for _, test := range []struct {
		name string
		used func(passed time.Duration) time.Duration // CPU time
		want time.Duration                            // when the process counts as idle; 0: never
	}{
		{"nothing", func(time.Duration) time.Duration { return time.Hour }, limit},
		{"work for a while", func(passed time.Duration) time.Duration {
			return min(passed, 30*time.Second) / 10
		}, 30*time.Second + limit},
		{"work now and then", func(passed time.Duration) time.Duration {
			return passed.Truncate(9*time.Second) / 10
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, stop := time.Now(), make(chan struct{})
				time.AfterFunc(time.Minute, func() { close(stop) })
				used := func() time.Duration { return test.used(time.Since(start)) }
				idle := testkit.WaitUntilIdle(limit, used, stop)
				if took := time.Since(start); idle != (test.want > 0) || idle && took != test.want {
					t.Errorf("idle %t after %v, want after %v", idle, took, test.want)
				}
			})
		})
	}
}

// A process that is stopped, or gets no CPU time, does not count as idle.
func TestStoppedIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(stop) })
		calls := 0
		idle := testkit.WaitUntilIdle(10*time.Second, func() time.Duration {
			if calls++; calls%5 == 0 {
				time.Sleep(8 * time.Second)
			}
			return 0
		}, stop)
		if idle {
			t.Error("a process that was stopped counts as idle")
		}
	})
}
