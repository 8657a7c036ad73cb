package servertest_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// childVar makes the test binary a process. Its value names the behaviour.
const childVar = "RONDO_PROCTEST_CHILD"

// The constant brief is how long tests wait for something that must not come.
const brief = 50 * time.Millisecond

func TestMain(m *testing.M) {
	mode := os.Getenv(childVar)
	if mode == "" {
		testkit.Main(m)
	}
	os.Exit(child(mode))
}

// The function as returns the command for a mode, without the race detector's pause at exit.
func as(t testing.TB, mode string) *exec.Cmd {
	t.Helper()
	return servertest.Self(t, childVar+"="+mode, "GORACE=atexit_sleep_ms=0")
}

func child(mode string) (code int) {
	switch mode {
	case "mute":
		time.Sleep(time.Hour)
	case "half":
		fmt.Print("half a line")
		return 0
	case "heir": // its child outlives it, and holds standard output and error
		heir := exec.Command(os.Args[0])
		heir.Env = append(os.Environ(), childVar+"=holder")
		heir.Stdin, heir.Stdout, heir.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := heir.Start(); err != nil {
			panic(err)
		}
		return 0
	case "holder":
		time.Sleep(10 * brief)
		return 0
	}
	fmt.Println("ready")
	switch mode {
	case "echo":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "deaf":
		time.Sleep(time.Hour)
	case "noisy":
		fmt.Fprintln(os.Stderr, "a warning")
	case "flood":
		_, _ = os.Stdout.Write(make([]byte, 1<<20))
	case "bad":
		_, _ = io.Copy(io.Discard, os.Stdin)
		fmt.Fprintln(os.Stderr, "no such database")
		return 7
	}
	return 0
}

// A fake is a test that records its failures.
type fake struct {
	testing.TB
	log      bytes.Buffer
	failures []string
	cleanups []func()
}

func (f *fake) Helper()                   {}
func (f *fake) Output() io.Writer         { return &f.log }
func (f *fake) Cleanup(fn func())         { f.cleanups = append(f.cleanups, fn) }
func (f *fake) Errorf(s string, a ...any) { f.failures = append(f.failures, fmt.Sprintf(s, a...)) }
func (f *fake) Fatal(a ...any)            { f.Fatalf("%s", fmt.Sprint(a...)) }
func (f *fake) Fatalf(s string, a ...any) {
	f.Errorf(s, a...)
	runtime.Goexit()
}

// run runs a test until it ends, and then its cleanups.
func (f *fake) run(test func(t testing.TB)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(f)
	}()
	<-done
	for _, cleanup := range f.cleanups {
		cleanup()
	}
}

func TestConversation(t *testing.T) {
	p := servertest.StartProcess(t, as(t, "echo"))
	if got := p.Line(); got != "ready" {
		t.Errorf("the first line is %q", got)
	}
	if _, err := io.WriteString(p.In, "one\r\ntwo\nthree\n"); err != nil {
		t.Fatal(err)
	}
	if got := p.Line(); got != "one" {
		t.Errorf("the second line is %q", got)
	}
	if got, err := bufio.NewReader(p.Out).ReadString('\n'); got != "two\n" || err != nil {
		t.Errorf("Out goes on with %q, %v", got, err)
	}
}

func TestEnds(t *testing.T) {
	line := func(p *servertest.Process) { p.Line() }
	for _, test := range []struct {
		name, mode string
		limit      time.Duration // 0: long enough
		during     func(*servertest.Process)
		want       []string // one part of each failure
		log        string
	}{
		{name: "good", mode: "echo", during: line},
		{name: "more output than a pipe holds", mode: "flood", during: line},
		{name: "standard error of a quiet one", mode: "noisy",
			during: func(p *servertest.Process) { p.Quiet = true; p.Line() },
			want:   []string{"wrote 10 bytes to its standard error"}, log: "a warning\n"},
		{name: "exit code", mode: "bad", during: line, want: []string{
			"ended badly: exit status 7",
		}, log: "no such database\n"},
		{name: "killed by Kill", mode: "deaf",
			during: func(p *servertest.Process) { p.Line(); p.Kill(); p.Kill() }},
		{name: "no line", mode: "half", during: line, want: []string{
			`says no line: EOF after "half a line"`,
		}},
		{name: "no line in time", mode: "mute", limit: brief, during: line, want: []string{
			"says nothing within 50ms", "end", // it must be killed and must fail, but not at once
		}},
		{
			name: "no end of output in time", mode: "heir", limit: brief,
			during: func(*servertest.Process) {},
			want:   []string{"does not end within 50ms"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			testkit.CheckLeaks(t)
			f := &fake{TB: t}
			if test.limit == 0 {
				test.limit = time.Minute
			}
			f.run(func(tb testing.TB) {
				test.during(servertest.StartWithin(tb, as(tb, test.mode), test.limit))
			})
			if len(f.failures) != len(test.want) {
				t.Fatalf("failures = %q, want %q", f.failures, test.want)
			}
			for i, want := range test.want {
				testkit.WantPart(t, "the failure", f.failures[i], want)
			}
			if got := f.log.String(); got != test.log {
				t.Errorf("the log is %q, want %q", got, test.log)
			}
		})
	}
}

func TestNoSuchProgram(t *testing.T) {
	testkit.CheckLeaks(t)
	f := &fake{TB: t}
	f.run(func(tb testing.TB) {
		servertest.StartProcess(tb, exec.Command(filepath.Join(t.TempDir(), "nothing")))
	})
	if len(f.failures) != 1 || len(f.cleanups) != 0 {
		t.Errorf("failures = %q with %d cleanups, want one without any", f.failures,
			len(f.cleanups))
	}
}

var noError = testkit.NoError
