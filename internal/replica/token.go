package replica

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// The kinds of tokens. Their numbers are part of the format.
const (
	kindSession   = 1
	kindChallenge = 2
	kindProof     = 3
	kindHop       = 4
	kindReply     = 5
)

// A Nonce ties a proof to its challenge.
type Nonce [16]byte

// A ChannelID names a channel at its owner.
type ChannelID [16]byte

// A Challenge asks who is at an address to prove that it is an owner.
type Challenge struct {
	Owner Owner
	Nonce Nonce
}

// A Proof answers a challenge.
type Proof struct {
	Nonce   Nonce
	Channel ChannelID
	// Draining says that the owner will end soon and serves the sessions that it has.
	Draining bool
}

// A Hop accompanies a request that is passed on.
type Hop struct {
	Channel  ChannelID
	Sequence uint64
	Session  [sha256.Size]byte // digest of the session id
	Body     [sha256.Size]byte // digest of the body
	Method   string
	// RemoteAddr is the address of the client, cut at 255 bytes.
	RemoteAddr string
}

// A Verdict is what an owner did with a request that was passed on.
type Verdict byte

// The verdicts.
const (
	// Taken: the response is that of the owner.
	Taken Verdict = iota
	// Misdirected: the request is not for this owner and was not served.
	Misdirected
	// StaleChannel: the owner does not accept the channel or the number, and has not
	// served the request. With a new channel it may.
	StaleChannel
)

// A Reply accompanies the response to a request that was passed on.
type Reply struct {
	Channel  ChannelID
	Sequence uint64
	Verdict  Verdict
}

// Codec seals and opens the tokens of replicas.
type Codec struct{ Keys Sealer }

// sealToken fails only where the keyring does, which a local one never does.
func (c Codec) sealToken(plaintext []byte) (string, error) {
	return c.Keys.Seal(context.Background(), plaintext)
}

// openToken returns the fields of a token of a kind.
func (c Codec) openToken(kind byte, token string) (f fields, ok bool) {
	if len(token) > maxToken {
		return fields{}, false
	}
	plaintext, err := c.Keys.Open(context.Background(), token)
	if err != nil || len(plaintext) == 0 || plaintext[0] != kind {
		return fields{}, false
	}
	return fields{rest: plaintext[1:]}, true
}

// ErrInnerTooLong is returned for an inner id of more than [MaxInner] bytes.
var ErrInnerTooLong = errors.New("replica: the id of a session is too long to be sealed")

// SealSession returns the id of a session of o. inner tells the sessions of o apart.
func (c Codec) SealSession(o Owner, inner string) (string, error) {
	if len(inner) > MaxInner {
		return "", ErrInnerTooLong
	}
	return c.sealToken(appendText(appendOwner([]byte{kindSession}, o), inner))
}

// OpenSession returns what SealSession was given.
func (c Codec) OpenSession(id string) (o Owner, inner string, ok bool) {
	f, ok := c.openToken(kindSession, id)
	if !ok {
		return Owner{}, "", false
	}
	o, inner = f.takeOwner(), f.takeText(MaxInner)
	if !f.isComplete() || !IsName(o.Name) {
		return Owner{}, "", false
	}
	return o, inner, true
}

// SealChallenge returns the token of a challenge.
func (c Codec) SealChallenge(ch Challenge) (string, error) {
	return c.sealToken(append(appendOwner([]byte{kindChallenge}, ch.Owner), ch.Nonce[:]...))
}

// OpenChallenge undoes SealChallenge.
func (c Codec) OpenChallenge(token string) (ch Challenge, ok bool) {
	f, ok := c.openToken(kindChallenge, token)
	ch.Owner = f.takeOwner()
	f.takeBytes(ch.Nonce[:])
	return ch, ok && f.isComplete()
}

// SealProof returns the token of a proof.
func (c Codec) SealProof(p Proof) (string, error) {
	b := append([]byte{kindProof}, p.Nonce[:]...)
	b = append(b, p.Channel[:]...)
	if p.Draining {
		return c.sealToken(append(b, 1))
	}
	return c.sealToken(append(b, 0))
}

// OpenProof undoes SealProof.
func (c Codec) OpenProof(token string) (p Proof, ok bool) {
	f, ok := c.openToken(kindProof, token)
	f.takeBytes(p.Nonce[:])
	f.takeBytes(p.Channel[:])
	flags := f.takeByte()
	p.Draining = flags == 1
	return p, ok && f.isComplete() && flags <= 1
}

// SealHop returns the token of a hop.
func (c Codec) SealHop(h *Hop) (string, error) {
	b := make([]byte, 1, 192)
	b[0] = kindHop
	b = append(b, h.Channel[:]...)
	b = binary.BigEndian.AppendUint64(b, h.Sequence)
	b = append(b, h.Session[:]...)
	b = append(b, h.Body[:]...)
	return c.sealToken(appendText(appendText(b, h.Method), h.RemoteAddr))
}

// OpenHop undoes SealHop.
func (c Codec) OpenHop(token string) (h *Hop, ok bool) {
	f, ok := c.openToken(kindHop, token)
	h = &Hop{}
	f.takeBytes(h.Channel[:])
	h.Sequence = f.takeUint64()
	f.takeBytes(h.Session[:])
	f.takeBytes(h.Body[:])
	h.Method, h.RemoteAddr = f.takeText(255), f.takeText(255)
	return h, ok && f.isComplete()
}

// SealReply returns the token of a reply.
func (c Codec) SealReply(r Reply) (string, error) {
	b := append([]byte{kindReply}, r.Channel[:]...)
	b = binary.BigEndian.AppendUint64(b, r.Sequence)
	return c.sealToken(append(b, byte(r.Verdict)))
}

// OpenReply undoes SealReply.
func (c Codec) OpenReply(token string) (r Reply, ok bool) {
	f, ok := c.openToken(kindReply, token)
	f.takeBytes(r.Channel[:])
	r.Sequence = f.takeUint64()
	r.Verdict = Verdict(f.takeByte())
	return r, ok && f.isComplete() && r.Verdict <= StaleChannel
}

func appendOwner(b []byte, o Owner) []byte { return appendText(append(b, o.Start[:]...), o.Name) }

// appendText appends the length of a text in one byte, and the text, cut at 255 bytes.
func appendText(b []byte, text string) []byte {
	text = text[:min(len(text), 255)]
	return append(append(b, byte(len(text))), text...)
}

// fields takes a plaintext apart. After the first field that is not there all are zero.
type fields struct {
	rest   []byte
	failed bool
}

func (f *fields) takeBytes(dst []byte) {
	if f.failed || len(f.rest) < len(dst) {
		f.failed = true
		return
	}
	f.rest = f.rest[copy(dst, f.rest):]
}

func (f *fields) takeByte() byte {
	var b [1]byte
	f.takeBytes(b[:])
	return b[0]
}

func (f *fields) takeUint64() uint64 {
	var b [8]byte
	f.takeBytes(b[:])
	return binary.BigEndian.Uint64(b[:])
}

func (f *fields) takeText(limit int) string {
	text := make([]byte, f.takeByte())
	if len(text) > limit {
		f.failed = true
	}
	f.takeBytes(text)
	if f.failed {
		return ""
	}
	return string(text)
}

func (f *fields) takeOwner() (o Owner) {
	f.takeBytes(o.Start[:])
	o.Name = f.takeText(MaxName)
	return o
}

// isComplete reports whether all fields were there, and nothing else is.
func (f *fields) isComplete() bool { return !f.failed && len(f.rest) == 0 }
