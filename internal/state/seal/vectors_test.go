package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/state/seal"
)

var update = flag.Bool("update", false, "rewrite testdata from the tables in this file")

// vector is one block of a testdata file: a keyring, a token, and Open's result. The files are the
// format's contract: changing an accepted token breaks tokens in use.
type vector struct {
	name      string
	keys      string // as for ParseKeyring
	max       int
	plaintext []byte // of accepted tokens
	token     string
	want      string // "ok" or the name of an Err variable
}

var verdicts = map[string]error{
	"ok":                  nil,
	"ErrTooLong":          seal.ErrTooLong,
	"ErrAlphabet":         seal.ErrAlphabet,
	"ErrTruncated":        seal.ErrTruncated,
	"ErrNonCanonical":     seal.ErrNonCanonical,
	"ErrVersion":          seal.ErrVersion,
	"ErrUnknownKey":       seal.ErrUnknownKey,
	"ErrForeignEphemeral": seal.ErrForeignEphemeral,
	"ErrAuthentication":   seal.ErrAuthentication,
}

// The vectors' secrets are counting bytes, recognizably not real.
var (
	vectorK1 = "k1:" + base64.RawURLEncoding.EncodeToString(counting(0x00, 32))
	vectorK2 = "k2:" + base64.RawURLEncoding.EncodeToString(counting(0x40, 32))
	vectorK3 = strings.Repeat("K", 32) + ":" +
		base64.RawURLEncoding.EncodeToString(counting(0x80, 64))
)

func counting(from byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = from + byte(i)
	}
	return b
}

func TestVectors(t *testing.T) {
	for file, table := range map[string][]vector{
		"accepted.txt": acceptedVectors(t),
		"refused.txt":  refusedVectors(t),
	} {
		t.Run(file, func(t *testing.T) {
			path := filepath.Join("testdata", file)
			generated := formatVectors(table)
			if *update {
				noError(t, os.WriteFile(path, generated, 0o644))
			}
			stored, err := os.ReadFile(path)
			noError(t, err)
			if !bytes.Equal(stored, generated) {
				t.Errorf("%s is not what this release would write; if that is meant, run with "+
					"-update and read the diff", path)
			}
			vectors := parseVectors(t, stored)
			if len(vectors) == 0 {
				t.Fatalf("%s holds no vectors", path)
			}
			for _, v := range vectors {
				t.Run(v.name, v.check)
			}
		})
	}
}

func (v vector) check(t *testing.T) {
	ring, err := seal.ParseKeyring(v.keys)
	noError(t, err)
	want, known := verdicts[v.want]
	if !known {
		t.Fatalf("want: %q is not a verdict", v.want)
	}
	got, err := ring.Open(v.token, v.max)
	if !errors.Is(err, want) || (want == nil) != (err == nil) {
		t.Fatalf("Open: got error %v, want %s", err, v.want)
	}
	if !bytes.Equal(got, v.plaintext) {
		t.Errorf("Open = %x, want %x", got, v.plaintext)
	}
}

// The function sealed returns a token under the first key, with counting bytes, not random ones.
func sealed(t testing.TB, keys string, plaintext []byte) string {
	t.Helper()
	ring, err := seal.ParseKeyring(keys)
	noError(t, err)
	return ring.SealRandom(plaintext, [24]byte(counting(0xc0, 24)))
}

func acceptedVectors(t testing.TB) []vector {
	var vectors []vector
	add := func(name, keys, sealer string, plaintext []byte) {
		token := sealed(t, sealer, plaintext)
		vectors = append(vectors, vector{name, keys, len(token), plaintext, token, "ok"})
	}
	add("honest", vectorK1, vectorK1, []byte(`{"step":2}`))
	add("empty plaintext", vectorK1, vectorK1, nil)
	add("one byte", vectorK1, vectorK1, []byte{0})
	add("two bytes", vectorK1, vectorK1, []byte{0, 255})
	add("long", vectorK1, vectorK1, counting(0, 1000))
	add("longest id and a secret of 64 bytes", vectorK3, vectorK3, []byte("state"))
	add("older enabled key", vectorK2+","+vectorK1, vectorK1, []byte("sealed before the rotation"))
	return vectors
}

func refusedVectors(t testing.TB) []vector {
	honest := sealed(t, vectorK1, []byte("a state"))
	raw, err := base64.RawURLEncoding.DecodeString(honest)
	noError(t, err)
	// The function with sets the byte at offset i to b.
	with := func(i int, b byte) string {
		changed := bytes.Clone(raw)
		changed[i] = b
		return base64.RawURLEncoding.EncodeToString(changed)
	}
	// The token has whole groups of three bytes, hence no tail bits; offsets in raw: 0 version, 1
	// id length, 2 id, 4 salt, 16 nonce, 28 sealed.
	last := len(raw) - 1
	var vectors []vector
	add := func(name, token, want string) {
		vectors = append(vectors, vector{name, vectorK1 + "," + vectorK2, 1 << 10, nil, token,
			want})
	}
	add("oversized", strings.Repeat("A", 1<<10+1), "ErrTooLong")
	add("oversized and not base64url", strings.Repeat("=", 1<<10+1), "ErrTooLong")
	add("LF inside", honest[:20]+"\n"+honest[20:], "ErrAlphabet")
	add("CR LF inside", honest[:20]+"\r\n"+honest[20:], "ErrAlphabet")
	add("CR in front", "\r"+honest, "ErrAlphabet")
	add("trailing newline", honest+"\n", "ErrAlphabet")
	add("only a newline", "\n", "ErrAlphabet")
	add("space inside", honest[:20]+" "+honest[20:], "ErrAlphabet")
	add("NUL behind", honest+"\x00", "ErrAlphabet")
	add("not ASCII", honest+"é", "ErrAlphabet")
	add("padded with one", honest+"=", "ErrAlphabet")
	add("padded with two", honest+"==", "ErrAlphabet")
	add("plus of the standard alphabet", honest[:20]+"+"+honest[21:], "ErrAlphabet")
	add("slash of the standard alphabet", honest[:20]+"/"+honest[21:], "ErrAlphabet")
	add("empty", "", "ErrTruncated")
	add("one character", "A", "ErrTruncated")
	add("version only", "AQ", "ErrTruncated")
	add("no tag", base64.RawURLEncoding.EncodeToString(raw[:28]), "ErrTruncated")
	add("shorter than its tag", base64.RawURLEncoding.EncodeToString(raw[:28+15]), "ErrTruncated")
	add("one character too many", honest+"A", "ErrTruncated")
	add("id longer than the token", with(1, 255), "ErrTruncated")
	add("one of four tail bits set", setTailBit(t, sealed(t, vectorK1, []byte("a state."))),
		"ErrNonCanonical")
	add("one of two tail bits set", setTailBit(t, sealed(t, vectorK1, []byte("a state.."))),
		"ErrNonCanonical")
	add("version 0", with(0, 0), "ErrVersion")
	add("version 2", with(0, 2), "ErrVersion")
	add("retired key", sealed(t, "k0:"+base64.RawURLEncoding.EncodeToString(counting(0x20, 32)),
		[]byte("a state")), "ErrUnknownKey")
	add("unknown id with the right secret",
		sealed(t, "K1:"+strings.TrimPrefix(vectorK1, "k1:"), []byte("a state")), "ErrUnknownKey")
	add("id of no bytes", with(1, 0), "ErrUnknownKey")
	add("id too short for its key", with(1, 1), "ErrUnknownKey")
	add("foreign ephemeral", foreignEphemeral(raw), "ErrForeignEphemeral")
	add("right id with another secret",
		sealed(t, "k1:"+base64.RawURLEncoding.EncodeToString(counting(0x20, 32)),
			[]byte("a state")), "ErrAuthentication")
	add("id of another enabled key", with(3, '2'), "ErrAuthentication")
	add("salt changed", with(4, raw[4]^1), "ErrAuthentication")
	add("nonce changed", with(16, raw[16]^1), "ErrAuthentication")
	add("ciphertext changed", with(28, raw[28]^1), "ErrAuthentication")
	add("tag changed", with(last, raw[last]^1), "ErrAuthentication")
	add("last byte dropped", base64.RawURLEncoding.EncodeToString(raw[:last]), "ErrAuthentication")
	add("byte appended", base64.RawURLEncoding.EncodeToString(append(bytes.Clone(raw), 0)),
		"ErrAuthentication")
	return vectors
}

// setTailBit sets the token's last bit, which is unused unless the length is a multiple of four.
func setTailBit(t testing.TB, token string) string {
	t.Helper()
	end := len(token) - 1
	i := strings.IndexByte(alphabet, token[end])
	if len(token)%4 == 0 || i%2 != 0 {
		t.Fatalf("token of %d characters has no tail bit to set", len(token))
	}
	return token[:end] + alphabet[i+1:i+2]
}

func foreignEphemeral(raw []byte) string {
	foreign := append([]byte{1, 10}, "e-ABCDEFGH"...)
	return base64.RawURLEncoding.EncodeToString(append(foreign, raw[4:]...))
}

func formatVectors(vectors []vector) []byte {
	var b bytes.Buffer
	b.WriteString("# Test vectors of the sealed token, version 1. Written by go test -run " +
		"TestVectors -update.\n" +
		"# keys are id:base64url, the primary first; the token is a Go string literal.\n")
	for _, v := range vectors {
		fmt.Fprintf(&b, "\nname: %s\nkeys: %s\nmax: %d\nplaintext(hex): %x\ntoken: %s\nwant: %s\n",
			v.name, v.keys, v.max, v.plaintext, strconv.QuoteToASCII(v.token), v.want)
	}
	return b.Bytes()
}

func parseVectors(t testing.TB, text []byte) []vector {
	t.Helper()
	var vectors []vector
	for _, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		var v vector
		for _, line := range strings.Split(block, "\n") {
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimSpace(value)
			var err error
			switch {
			case strings.HasPrefix(line, "#"):
			case field == "name":
				v.name = value
			case field == "keys":
				v.keys = value
			case field == "max":
				v.max, err = strconv.Atoi(value)
			case field == "plaintext(hex)":
				v.plaintext, err = hex.DecodeString(value)
			case field == "token":
				v.token, err = strconv.Unquote(value)
			case field == "want":
				v.want = value
			default:
				err = errors.New("unknown field")
			}
			if err != nil {
				t.Fatalf("vector %q: %q: %v", v.name, line, err)
			}
		}
		if v.name != "" {
			vectors = append(vectors, v)
		}
	}
	return vectors
}
