package natsbus_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation/natsbus"
)

// questions and answers are good frames, the seeds of what follows.
func questions() map[string][]byte {
	return map[string][]byte{
		"whole": natsbus.EncodeRequest(0, 1, 7, "q.0123456789abcdef",
			[]byte(`{"do":"complete"}`)),
		"empty":    natsbus.EncodeRequest(0, 1, 1, "q.1", nil),
		"part":     natsbus.EncodeRequest(2, 3, 1<<63, "v.1", []byte("x")),
		"long key": natsbus.EncodeRequest(0, 1, 0, strings.Repeat("k", 64), []byte("\x00\xff")),
		"many":     natsbus.EncodeRequest(1023, 1024, 0, "q", nil),
	}
}

func answers() map[string][]byte {
	return map[string][]byte{
		"done":    natsbus.EncodeResponse(1, 0, 1, []byte(`{"disposition":1}`)),
		"empty":   natsbus.EncodeResponse(1, 0, 1, nil),
		"part":    natsbus.EncodeResponse(1, 4, 5, []byte("x")),
		"moved":   natsbus.EncodeResponse(2, 0, 1, nil),
		"refused": natsbus.EncodeResponse(4, 0, 1, nil),
		"failed":  natsbus.EncodeResponse(5, 0, 1, nil),
	}
}

func TestFrames(t *testing.T) {
	for name, frame := range questions() {
		if again, err := natsbus.RecodeRequest(frame); err != nil || !bytes.Equal(again, frame) {
			t.Errorf("question %s: %x, %v", name, again, err)
		}
	}
	for name, frame := range answers() {
		if again, err := natsbus.RecodeResponse(frame); err != nil || !bytes.Equal(again, frame) {
			t.Errorf("answer %s: %x, %v", name, again, err)
		}
	}
}

func TestMalformedFrames(t *testing.T) {
	good := questions()["whole"]
	for name, frame := range map[string][]byte{
		"nothing":           nil,
		"format":            append([]byte{2}, good[1:]...),
		"cut in the header": good[:13],
		"cut in the key":    good[:20],
		"no parts":          natsbus.EncodeRequest(0, 0, 1, "q.1", nil),
		"part beyond":       natsbus.EncodeRequest(1, 1, 1, "q.1", nil),
		"too many parts":    natsbus.EncodeRequest(0, 1025, 1, "q.1", nil),
		"no key":            natsbus.EncodeRequest(0, 1, 1, "", nil),
		"long key":          natsbus.EncodeRequest(0, 1, 1, strings.Repeat("k", 65), nil),
		"key in capitals":   natsbus.EncodeRequest(0, 1, 1, "Q.1", nil),
		"key with a space":  natsbus.EncodeRequest(0, 1, 1, "q 1", nil),
		"key with a line":   natsbus.EncodeRequest(0, 1, 1, "q\r\n1", nil),
		"key with a score":  natsbus.EncodeRequest(0, 1, 1, "q_1", nil),
		"wildcard":          natsbus.EncodeRequest(0, 1, 1, "q.>", nil),
		"not UTF-8":         natsbus.EncodeRequest(0, 1, 1, "q.\xff", nil),
	} {
		if _, err := natsbus.RecodeRequest(frame); err == nil {
			t.Errorf("question %s is accepted", name)
		}
	}
	for name, frame := range map[string][]byte{
		"nothing":          nil,
		"cut":              {1, 1, 0, 0, 0},
		"format":           {0, 1, 0, 0, 0, 1},
		"status 0":         natsbus.EncodeResponse(0, 0, 1, nil),
		"status 6":         natsbus.EncodeResponse(6, 0, 1, nil),
		"no parts":         natsbus.EncodeResponse(1, 0, 0, nil),
		"refusal in parts": natsbus.EncodeResponse(4, 0, 2, nil),
		"refusal and text": natsbus.EncodeResponse(4, 0, 1, []byte("why")),
	} {
		if _, err := natsbus.RecodeResponse(frame); err == nil {
			t.Errorf("answer %s is accepted", name)
		}
	}
}

// FuzzFrames wants one spelling for each frame.
func FuzzFrames(f *testing.F) {
	for _, seeds := range []map[string][]byte{questions(), answers()} {
		if len(seeds) == 0 {
			f.Fatal("no seeds")
		}
		for _, seed := range seeds {
			f.Add(seed)
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		if again, err := natsbus.RecodeRequest(frame); err == nil && !bytes.Equal(again, frame) {
			t.Errorf("question %x becomes %x", frame, again)
		}
		if again, err := natsbus.RecodeResponse(frame); err == nil && !bytes.Equal(again, frame) {
			t.Errorf("answer %x becomes %x", frame, again)
		}
	})
}
