package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/wire/sse"
)

// readAll returns the events as "type|data", and the error that ended the stream.
func readAll(r *sse.Reader) (events []string, err error) {
	for {
		e, err := r.Next()
		if err != nil {
			return events, err
		}
		events = append(events, e.Type+"|"+string(e.Data))
	}
}

func TestReader(t *testing.T) {
	cases := []struct {
		name, stream string
		want         []string
		err          error
	}{
		{"empty", "", nil, io.EOF},
		{"one", "data: a\n\n", []string{"|a"}, io.EOF},
		{"no space", "data:a\n\n", []string{"|a"}, io.EOF},
		{"one space only is dropped", "data:  a \n\n", []string{"| a "}, io.EOF},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}, io.EOF},
		{"CR", "data: a\r\rdata: b\r\r", []string{"|a", "|b"}, io.EOF},
		{"mixed ends", "data: a\r\ndata: b\rdata: c\n\n", []string{"|a\nb\nc"}, io.EOF},
		{"multi", "data: a\ndata:\ndata: b\n\n", []string{"|a\n\nb"}, io.EOF},
		{"mark", "\ufeffdata: a\n\n", []string{"|a"}, io.EOF},
		{"second mark is a field", "\ufeff\ufeffdata: a\n\ndata: b\n\n", []string{"|b"}, io.EOF},
		{"only a mark", "\ufeff", nil, io.EOF},
		{"half a mark", "\xef\xbb", nil, io.ErrUnexpectedEOF},
		{"comments", ":\n: x\n:\n\ndata: a\n:in between\ndata: b\n\n", []string{"|a\nb"}, io.EOF},
		{"type", "event: message\ndata: a\n\ndata: b\n\n", []string{"message|a", "|b"}, io.EOF},
		{"event without data", "event: x\nid: 1\n\ndata: a\n\n", []string{"|a"}, io.EOF},
		{"empty data", "data:\n\ndata\n\ndata: a\n\n", []string{"|a"}, io.EOF},
		{"unknown fields", "foo: bar\nDATA: no\n data: no\ndata: a\nbaz\n\n", []string{"|a"},
			io.EOF},
		{"colon in value", "data: {\"a\":1}\n\n", []string{`|{"a":1}`}, io.EOF},
		{"cut in a line", "data: a\n\ndata: b", []string{"|a"}, io.ErrUnexpectedEOF},
		{"cut in an event", "data: a\n\ndata: b\n", []string{"|a"}, io.ErrUnexpectedEOF},
		{"blank lines", "\n\n\r\n\r\rdata: a\n\n\n\n", []string{"|a"}, io.EOF},
		{"at the limit", "data: " + strings.Repeat("x", 57) + "\n\n", []string{
			"|" + strings.Repeat("x", 57),
		}, io.EOF},
		{"line above the limit", "data: " + strings.Repeat("x", 59) + "\n\n", nil, sse.ErrTooLarge},
		{"lines above the limit", strings.Repeat("data: xxxx\n", 7) + "\n", nil, sse.ErrTooLarge},
		{"endless line", strings.Repeat("x", 1000), nil, sse.ErrTooLarge},
		{"endless comment", ":" + strings.Repeat("x", 1000), nil, sse.ErrTooLarge},
		{
			"many comments", strings.Repeat(": keep-alive\n\n", 100) + "data: a\n\n",
			[]string{"|a"}, io.EOF,
		},
	}
	for _, tc := range cases {
		for reader, src := range map[string]io.Reader{
			"whole": strings.NewReader(tc.stream),
			"bytes": iotest.OneByteReader(strings.NewReader(tc.stream)),
			"err":   iotest.DataErrReader(strings.NewReader(tc.stream)),
		} {
			t.Run(tc.name+" "+reader, func(t *testing.T) {
				got, err := readAll(sse.NewReader(src, 64))
				if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tc.want) || !errors.Is(err, tc.err) {
					t.Errorf("got %q, %v, want %q, %v", got, err, tc.want, tc.err)
				}
			})
		}
	}
}

// An event that ends in CR is returned at once: the server may be waiting.
func TestReaderDoesNotWait(t *testing.T) {
	for _, event := range []string{"data: a\n\n", "data: a\r\r", "data: a\r\n\r\n",
		"data: a\r\n\r"} {
		pr, pw := io.Pipe()
		go func() { _, _ = io.WriteString(pw, event) }()
		e, err := sse.NewReader(pr, 0).Next()
		if err != nil || string(e.Data) != "a" {
			t.Errorf("%q: got %q, %v", event, e.Data, err)
		}
		pr.Close()
	}
}

func TestReaderResumption(t *testing.T) {
	r := sse.NewReader(
		strings.NewReader(
			"id: 1\nretry: 1500\ndata:\n\nid: a\x00b\nretry: -1\ndata: x\n\nid: 3\ndata: "+
				"y\n\nid\ndata: z\n\nid: lost\n",
		),
		0,
	)
	for _, want := range []struct{ data, id string }{{"x", "1"}, {"y", "3"}, {"z", ""}} {
		e, err := r.Next()
		if err != nil || string(e.Data) != want.data || r.LastEventID() != want.id {
			t.Errorf("got %q, id %q, %v, want %+v", e.Data, r.LastEventID(), err, want)
		}
	}
	if d, ok := r.Retry(); d != 1500*time.Millisecond || !ok {
		t.Errorf("got retry %v, %v", d, ok)
	}
	if _, err := r.Next(); err != io.ErrUnexpectedEOF || r.LastEventID() != "" {
		t.Errorf("got %v, id %q", err, r.LastEventID())
	}
}

func TestReaderSourceErrors(t *testing.T) {
	broken := errors.New("broken")
	r := sse.NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"),
		iotest.ErrReader(broken)), 0)
	if got, err := readAll(r); len(got) != 1 || err != broken {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := r.Next(); err != broken {
		t.Errorf("again: got %v", err)
	}
	if _, err := sse.NewReader(nothing{}, 0).Next(); err != io.ErrNoProgress {
		t.Errorf("source that gives nothing: got %v", err)
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }

func TestWriter(t *testing.T) {
	cases := []struct {
		name, got, want string
	}{
		{"one line", string(sse.AppendEvent([]byte("x"), []byte("a"))), "xdata: a\n\n"},
		{"lines", string(sse.AppendEvent(nil, []byte("a\nb\r\nc\rd"))),
			"data: a\ndata: b\ndata: c\ndata: d\n\n"},
		{"trailing end", string(sse.AppendEvent(nil, []byte("a\n"))), "data: a\ndata: \n\n"},
		{"id", string(sse.AppendEventID(nil, "1\n\r\x002", []byte("a"))), "id: 12\ndata: a\n\n"},
		{"comment", string(sse.AppendComment(nil)), ":\n\n"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.name, tc.got, tc.want)
			}
		})
	}
}

// No stream panics or exceeds the limit, and the split of its bytes makes no difference.
func FuzzReader(f *testing.F) {
	seeds := [][]byte{
		sse.AppendEvent(nil, []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)),
		sse.AppendEventID(sse.AppendComment(nil), "7", []byte("a\nb")),
		[]byte("\ufeffevent: x\r\ndata: a\r\rretry: 9\n\n"),
	}
	for _, seed := range seeds {
		if len(seed) == 0 {
			f.Fatal("empty seed")
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		const limit = 256
		whole, err1 := readAll(sse.NewReader(bytes.NewReader(stream), limit))
		single, err2 := readAll(sse.NewReader(iotest.OneByteReader(bytes.NewReader(stream)), limit))
		if fmt.Sprint(whole, err1) != fmt.Sprint(single, err2) {
			t.Errorf("got %q, %v at once and %q, %v byte by byte", whole, err1, single, err2)
		}
		for _, e := range whole {
			if len(e) > limit+1 {
				t.Errorf("event of %d bytes passed", len(e))
			}
		}
	})
}

// Written events are read back, with line ends made LF.
func FuzzWriter(f *testing.F) {
	for _, seed := range []string{"a", "a\nb", "\r\n\r", "{\"x\":\"\\n\"}", ":"} {
		if seed == "" {
			f.Fatal("empty seed")
		}
		f.Add([]byte(seed))
	}
	ends := strings.NewReplacer("\r\n", "\n", "\r", "\n")
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := sse.NewReader(bytes.NewReader(sse.AppendEvent(nil, data)), 0).Next()
		want := ends.Replace(string(data))
		if want == "" {
			if err != io.EOF {
				t.Errorf("got %q, %v for no data", e.Data, err)
			}
			return
		}
		if err != nil || string(e.Data) != want {
			t.Errorf("got %q, %v, want %q", e.Data, err, want)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	stream := sse.AppendEvent(
		nil,
		[]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`+
			strings.Repeat("x", 400)+`"}]}}`),
	)
	b.ReportAllocs()
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		if _, err := sse.NewReader(bytes.NewReader(stream), 0).Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAppendRetry(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1500 * time.Microsecond: "1", time.Minute: "60000", -time.Second: "0",
	} {
		t.Run(d.String(), func(t *testing.T) {
			stream := sse.AppendEvent(sse.AppendRetry(nil, d), []byte("x"))
			if got := string(stream); got != "retry: "+want+"\ndata: x\n\n" {
				t.Errorf("%v: got %q", d, got)
			}
		})
	}
}

func TestReaderCostIsLinear(t *testing.T) {
	inputs := []testkit.GrowthInput{
		{Name: "CR", Make: testkit.Repeat("data: a\n\n", "\r", "\n\n")},
		{Name: "CR after a long line", Make: func(size int) []byte {
			return append(testkit.Repeat("data: ", "x", "\n\n")(size/2),
				testkit.Repeat("", "\r", "\n\n")(size/2)...)
		}},
		{Name: "LF", Make: testkit.Repeat("", "\n", "data: a\n\n")},
		{Name: "comments", Make: testkit.Repeat("", ":\r", "data: a\n\n")},
		{Name: "data lines that end in CR", Make: testkit.Repeat("", "data:x\r", "\r")},
		{Name: "events", Make: testkit.Repeat("", "id: 1\ndata: a\n\n", "")},
		{Name: "types", Make: testkit.Repeat("", "event: a\n", "data: a\n\n")},
		{Name: "ids", Make: testkit.Repeat("", "id: abcdef\r\n", "data: a\n\n")},
		{Name: "one event", Make: testkit.Repeat("data: ", "x", "\n\n")},
		{Name: "cut off", Make: testkit.Repeat("data: ", "x\r", "data: y"), Refused: true},
		{Name: "no end of line", Make: testkit.Repeat("", "x", ""), Refused: true},
	}
	for _, pieces := range []struct {
		name string
		size int
	}{{"whole", testkit.Large}, {"in pieces", 100}} {
		t.Run(pieces.name, func(t *testing.T) {
			testkit.CheckGrowth(t, testkit.GrowthReader{
				Read: func(input []byte) bool {
					_, err := readAll(sse.NewReader(&pieceReader{bytes.NewReader(input),
						pieces.size}, 0))
					return err == io.EOF
				},
				BytesPerByte: 12, ObjectsPerByte: 0.4, // the small events are kept
			}, inputs...)
		})
	}
}

// pieceReader returns a few bytes at a time.
type pieceReader struct {
	src  io.Reader
	most int
}

func (r *pieceReader) Read(p []byte) (int, error) { return r.src.Read(p[:min(len(p), r.most)]) }
