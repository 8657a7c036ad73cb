package lineio_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/rondo-mcp/rondo/internal/growthtest"
	"github.com/rondo-mcp/rondo/internal/lineio"
)

func TestGrowth(t *testing.T) {
	const most = 64 << 10
	growthtest.Test(t, growthtest.Reader{
		Read: func(input []byte) (accepted bool) {
			r := lineio.NewReader(bytes.NewReader(input), most)
			for accepted = true; ; {
				_, err := r.Next()
				switch {
				case err == io.EOF:
					return accepted
				case errors.Is(err, lineio.ErrTooLong):
					accepted = false // of this line; others follow
				case err != nil:
					return false
				}
			}
		},
		BytesPerByte: 8, ObjectsPerByte: 0.6, // a line of one byte is a piece of memory of its own
	},
		growthtest.Input{Name: "short lines", Make: growthtest.Repeat("", "a\n", "")},
		growthtest.Input{Name: "empty lines", Make: growthtest.Repeat("", "\n", "")},
		growthtest.Input{Name: "messages", Make: growthtest.Repeat(
			"", `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n", "",
		)},
		growthtest.Input{Name: "one line", Make: growthtest.Repeat("", "x", "\n"), RefusedFrom: most + 2},
		growthtest.Input{Name: "no end", Make: growthtest.Repeat("", "x", ""), RefusedFrom: most + 1},
	)
}
