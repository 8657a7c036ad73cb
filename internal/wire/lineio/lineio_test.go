package lineio_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/wire/lineio"
)

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	tests := []struct {
		name, in string
		max      int
		want     []string // lines, or "!" for a line over the limit
	}{
		{"empty", "", 10, nil},
		{"lines", "a\nb\n", 10, []string{"a", "b"}},
		{"CRLF", "a\r\nb\r\n", 10, []string{"a", "b"}},
		{"blank lines", "\n\r\n  \na\n\n", 10, []string{"a"}},
		{"no end", "a\nb", 10, []string{"a", "b"}},
		{"at the limit", "0123456789\n", 10, []string{"0123456789"}},
		{"at the limit, CRLF", "0123456789\r\n", 10, []string{"0123456789"}},
		{"one over", "0123456789x\na\n", 10, []string{"!", "a"}},
		{"far over", long + "\na\n", 10, []string{"!", "a"}},
		{"over at the end", "a\n" + long, 10, []string{"a", "!"}},
		{"longer than the buffer", long + "\na\n", 200_000, []string{long, "a"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for name, in := range map[string]io.Reader{
				"whole":   strings.NewReader(test.in),
				"by byte": iotest.OneByteReader(strings.NewReader(test.in)),
			} {
				r := lineio.NewReader(in, test.max)
				var got []string
				for {
					line, err := r.Next()
					if errors.Is(err, io.EOF) {
						break
					}
					if errors.Is(err, lineio.ErrTooLong) {
						line = []byte("!")
					} else {
						noError(t, err)
					}
					got = append(got, string(line))
				}
				if fmt.Sprint(got) != fmt.Sprint(test.want) {
					t.Errorf("%s: got %.200q, want %.200q", name, got, test.want)
				}
			}
		})
	}
}

func TestReaderReportsTheStreamsError(t *testing.T) {
	broken := errors.New("broken")
	r := lineio.NewReader(io.MultiReader(strings.NewReader("a\n"), iotest.ErrReader(broken)), 10)
	if line, err := r.Next(); string(line) != "a" || err != nil {
		t.Fatalf("got %q, %v", line, err)
	}
	if _, err := r.Next(); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("a\nbb\r\n\nccc"), 2)
	f.Fuzz(func(t *testing.T, in []byte, max int) {
		max = 1 + max&0xff
		r := lineio.NewReader(bytes.NewReader(in), max)
		for range len(in) + 2 {
			line, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if len(line) > max || bytes.IndexByte(line, '\n') >= 0 {
				t.Fatalf("line %q, limit %d", line, max)
			}
		}
		t.Fatal("more lines than bytes")
	})
}

func TestReaderCostIsLinear(t *testing.T) {
	const most = 64 << 10
	testkit.CheckGrowth(t, testkit.GrowthReader{
		Read: func(input []byte) (accepted bool) {
			r := lineio.NewReader(bytes.NewReader(input), most)
			for accepted = true; ; {
				_, err := r.Next()
				switch {
				case err == io.EOF:
					return accepted
				case errors.Is(err, lineio.ErrTooLong):
					accepted = false // this line is refused; others follow
				case err != nil:
					return false
				}
			}
		},
		BytesPerByte: 8, ObjectsPerByte: 0.6, // each one-byte line is an allocation
	}, testkit.GrowthInput{Name: "short lines", Make: testkit.Repeat("", "a\n", "")},
		testkit.GrowthInput{Name: "empty lines", Make: testkit.Repeat("", "\n", "")},
		testkit.GrowthInput{Name: "messages", Make: testkit.Repeat(
			"", `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n", "",
		)},
		testkit.GrowthInput{Name: "one line", Make: testkit.Repeat("", "x", "\n"),
			RefusedFrom: most + 2},
		testkit.GrowthInput{Name: "no end", Make: testkit.Repeat("", "x", ""),
			RefusedFrom: most + 1},
	)
}

type cancelled bool

func (c cancelled) IsCancelled() bool { return bool(c) }

func TestStreamWritesLinesWhole(t *testing.T) {
	var out bytes.Buffer
	s := lineio.NewStream()
	ran := make(chan error, 1)
	go func() { ran <- s.Write(&out) }()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			line := bytes.Repeat([]byte{byte('a' + i%26)}, 1000)
			for _, unless := range []lineio.Cancellable{cancelled(false), cancelled(true), nil} {
				if err := s.Send(t.Context(), line, unless); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s.End()
	if err := <-ran; err != nil || s.Err() != nil {
		t.Errorf("ended with %v, %v", err, s.Err())
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 100 {
		t.Fatalf("got %d lines, want 100 without those that are dropped", len(lines))
	}
	for _, line := range lines {
		if line != strings.Repeat(line[:1], 1000) {
			t.Errorf("lines are mixed: %.20q", line)
		}
	}
	if err := s.Send(t.Context(), nil, nil); err != lineio.ErrEnded {
		t.Errorf("after the end: %v", err)
	}
}

// Nothing may follow a failed write, which may have written part of a line.
func TestStreamEndsWhenItCannotWrite(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		name, line string
		want       error // nil for any error
	}{{"the writer fails", "a", broken}, {"two lines", "a\nb", nil}} {
		t.Run(test.name, func(t *testing.T) {
			r, w := io.Pipe()
			_ = r.CloseWithError(broken)
			s := lineio.NewStream()
			go func() { _ = s.Write(w) }()
			noError(t, s.Send(t.Context(), []byte(test.line), nil))
			<-s.Done()
			err := s.Send(t.Context(), []byte("b"), nil)
			if err == nil || err != s.Err() || errors.Is(err, broken) != (test.want != nil) {
				t.Errorf("got %v and %v, want %v", err, s.Err(), test.want)
			}
		})
	}
}
