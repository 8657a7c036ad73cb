package natsbus_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/growthtest"
)

// TestFrameGrowth: a frame comes from any replica of the account, so what decoding costs is in
// proportion to its length whatever it says. The bounds are twice what one copy of it takes: the
// chunk is not copied, encoding it again copies it once.
func TestFrameGrowth(t *testing.T) {
	request := string(natsbus.EncodeRequest(0, 1, 7, "q.0123456789abcdef", nil))
	noKey := string(natsbus.EncodeRequest(0, 1, 7, "", nil))
	answer := string(natsbus.EncodeResponse(1, 0, 1, nil))
	refusal := string(natsbus.EncodeResponse(4, 0, 1, nil))
	for _, kind := range []struct {
		name   string
		recode func([]byte) ([]byte, error)
		inputs []growthtest.Input
	}{
		{"request", natsbus.RecodeRequest, []growthtest.Input{
			{Name: "chunk", Make: growthtest.Repeat(request, "x", "")},
			{Name: "zeros", Make: growthtest.Repeat(request, "\x00", "")},
			{Name: "frames in a frame", Make: growthtest.Repeat(request, request, "")},
			{Name: "no key", Make: growthtest.Repeat(noKey, "x", ""), Refused: true},
			{Name: "no frame", Make: growthtest.Repeat("", "\xff", ""), Refused: true},
			{Name: "headers without end", Make: growthtest.Repeat("", "\x01", ""), Refused: true},
		}},
		{"response", natsbus.RecodeResponse, []growthtest.Input{
			{Name: "chunk", Make: growthtest.Repeat(answer, "x", "")},
			{Name: "refusal with text", Make: growthtest.Repeat(refusal, "x", ""), Refused: true},
			{Name: "no frame", Make: growthtest.Repeat("", "\xff", ""), Refused: true},
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			growthtest.Test(t, growthtest.Reader{
				Read: func(input []byte) bool {
					_, err := kind.recode(input)
					return err == nil
				},
				BytesPerByte: 2, ObjectsPerByte: 0.001,
			}, kind.inputs...)
		})
	}
}

// TestAssemblyGrowth: a message is put together from parts at a cost in proportion to its length,
// up to the number of parts that a frame can name.
func TestAssemblyGrowth(t *testing.T) {
	for _, tt := range []struct {
		name  string
		chunk int // bytes of each part; the last one has the rest
	}{
		{"parts of 4 KiB", 4 << 10},
		{"as many parts as there may be", growthtest.Large/natsbus.MaxParts + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			growthtest.Test(t, growthtest.Reader{
				Read: func(input []byte) bool {
					message, err := natsbus.Assemble(input, tt.chunk)
					return err == nil && len(message) == len(input)
				},
				BytesPerByte: 8, ObjectsPerByte: 0.01,
			}, growthtest.Input{Name: "text", Make: growthtest.Repeat("", "x", "")})
		})
	}
}
