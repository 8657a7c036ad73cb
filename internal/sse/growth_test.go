package sse_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/rondo-mcp/rondo/internal/growthtest"
	"github.com/rondo-mcp/rondo/internal/sse"
)

func TestGrowth(t *testing.T) {
	inputs := []growthtest.Input{
		{Name: "CR", Make: growthtest.Repeat("data: a\n\n", "\r", "\n\n")},
		{Name: "CR after a long line", Make: func(size int) []byte {
			return append(growthtest.Repeat(
				"data: ", "x", "\n\n",
			)(size/2), growthtest.Repeat("", "\r", "\n\n")(size/2)...)
		}},
		{Name: "LF", Make: growthtest.Repeat("", "\n", "data: a\n\n")},
		{Name: "comments", Make: growthtest.Repeat("", ":\r", "data: a\n\n")},
		{Name: "data lines that end in CR", Make: growthtest.Repeat("", "data:x\r", "\r")},
		{Name: "events", Make: growthtest.Repeat("", "id: 1\ndata: a\n\n", "")},
		{Name: "types", Make: growthtest.Repeat("", "event: a\n", "data: a\n\n")},
		{Name: "ids", Make: growthtest.Repeat("", "id: abcdef\r\n", "data: a\n\n")},
		{Name: "one event", Make: growthtest.Repeat("data: ", "x", "\n\n")},
		{Name: "cut off", Make: growthtest.Repeat("data: ", "x\r", "data: y"), Refused: true},
		{Name: "no end of line", Make: growthtest.Repeat("", "x", ""), Refused: true},
	}
	for _, pieces := range []struct {
		name string
		size int
	}{{"whole", growthtest.Large}, {"in pieces", 100}} {
		t.Run(pieces.name, func(t *testing.T) {
			growthtest.Test(t, growthtest.Reader{
				Read: func(input []byte) bool {
					_, err := readAll(sse.NewReader(&pieceReader{bytes.NewReader(input), pieces.size}, 0))
					return err == io.EOF
				},
				BytesPerByte: 12, ObjectsPerByte: 0.4, // the small events, which the test keeps
			}, inputs...)
		})
	}
}

// pieceReader gives a little at a time.
type pieceReader struct {
	src  io.Reader
	most int
}

func (r *pieceReader) Read(p []byte) (int, error) { return r.src.Read(p[:min(len(p), r.most)]) }
