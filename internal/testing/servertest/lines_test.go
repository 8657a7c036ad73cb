package servertest_test

import (
	"bufio"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

// In fake time an answer that takes an hour comes at once.
func TestLinesRunInFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := servertest.ServeLines(t, func(_ context.Context, in io.Reader, out io.Writer) {
			line, _ := bufio.NewReader(in).ReadString('\n')
			time.Sleep(time.Hour)
			_, _ = io.WriteString(out, line)
		})
		began := time.Now()
		if _, err := io.WriteString(w, "hello\n"); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(r)
		if took := time.Since(began); string(all) != "hello\n" || err != nil || took != time.Hour {
			t.Errorf("got %q, %v after %v", all, err, took)
		}
	})
}

// The connection ends with the test, whatever the server waits for.
func TestLinesEndWithTheTest(t *testing.T) {
	for name, serve := range map[string]func(context.Context, io.Reader, io.Writer){
		"reads": func(_ context.Context, in io.Reader, _ io.Writer) { _, _ = io.ReadAll(in) },
		"writes": func(_ context.Context, _ io.Reader, out io.Writer) {
			_, _ = io.WriteString(out, "x")
		},
		"waits": func(ctx context.Context, _ io.Reader, _ io.Writer) { <-ctx.Done() },
	} {
		ended := false
		t.Run(name, func(t *testing.T) {
			servertest.ServeLines(t, func(ctx context.Context, in io.Reader, out io.Writer) {
				serve(ctx, in, out)
				ended = true
			})
		})
		if !ended {
			t.Errorf("a server that %s is still running", name)
		}
	}
}
