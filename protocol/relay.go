package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// RelayResult is [DecodeResult] for a program that passes the result on. A result that was complete
// is encoded again with the members that it came with, also those that this package does not know,
// in their order. What the revision of the receiver decides is written anew: resultType, cache
// hints and _meta. Whoever changes a field of a copy of the result gets the fields encoded instead;
// so does a result with an entry that nests too deep. It aliases data.
func RelayResult(
	v Version, method string, data []byte, report func(error),
) (Result, error) {
	result, err := DecodeResult(v, method, data, report)
	if r, ok := result.(relayable); ok && err == nil &&
		!bytes.Contains(data, []byte(jsonx.TooDeep)) {
		r.provenanceOf().origin = &origin{data, r.relay().fields}
	}
	return result, err
}

// A relayable result can be encoded as it came.
type relayable interface {
	Result
	relay() relayed
	provenanceOf() *provenance
}

// relayed is what decides how a result is encoded again.
type relayed struct {
	fields fingerprint
	cache  *CacheHints // nil: the result has none
	meta   Meta
}

// An origin is where a relayed result comes from.
type origin struct {
	members json.RawMessage
	read    fingerprint // of the fields when they were read
}

// provenance is part of the results that can be relayed.
type provenance struct {
	origin *origin // nil: of this program
	odd    []error // what was read all the same
}

func (p *provenance) provenanceOf() *provenance { return p }

// notef notes what is odd. p may be nil.
func (p *provenance) notef(format string, args ...any) {
	if p != nil {
		p.odd = append(p.odd, fmt.Errorf(format, args...))
	}
}

// A fingerprint tells whether the fields of a result are those that were read. Results that were
// handed out are not changed in place, so the first element and the length tell lists apart.
type fingerprint struct {
	first any // points to the first element
	count int
	rest  any
}

func fingerprintOf[E any](list []E, rest any) fingerprint {
	return fingerprint{firstOf(list), len(list), rest}
}

func firstOf[E any](list []E) *E {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// relayedMembers returns the members that a result came with, nil for results of this program and
// for those that have been changed since.
func relayedMembers(r relayable) json.RawMessage {
	if o := r.provenanceOf().origin; o != nil && o.read == r.relay().fields {
		return o.members
	}
	return nil
}

// appendRelayed writes a result with the members that it came with.
func (r relayed) appendMembers(w *objectWriter, raw json.RawMessage) error {
	err := walkMembers(raw, func(key, value []byte) error {
		switch string(key) {
		case "resultType", "ttlMs", "cacheScope", "_meta":
			return nil
		}
		w.dst = appendMember(w.dst, string(key), value)
		return nil
	})
	if err != nil {
		return err
	}
	if r.cache != nil {
		err = w.codeHints(member{}, r.cache)
	}
	return firstError(err, w.codeMeta(member{}, &r.meta))
}

func (r *CallToolResult) relay() relayed {
	rest := [2]any{firstOf(r.StructuredContent), r.IsError}
	return relayed{fingerprintOf(r.Content, rest), nil, r.Meta}
}

func (r *GetPromptResult) relay() relayed {
	return relayed{fingerprintOf(r.Messages, r.Description), nil, r.Meta}
}

func (r *ReadResourceResult) relay() relayed {
	return relayed{fingerprintOf(r.Contents, nil), &r.Cache, r.Meta}
}

func (r *CompleteResult) relay() relayed {
	return relayed{fingerprintOf(r.Values, [2]any{r.Total, r.HasMore}), nil, r.Meta}
}

func (r *ListToolsResult) relay() relayed {
	return relayed{fingerprintOf(r.Tools, r.NextCursor), &r.Cache, r.Meta}
}

func (r *ListPromptsResult) relay() relayed {
	return relayed{fingerprintOf(r.Prompts, r.NextCursor), &r.Cache, r.Meta}
}

func (r *ListResourcesResult) relay() relayed {
	return relayed{fingerprintOf(r.Resources, r.NextCursor), &r.Cache, r.Meta}
}

func (r *ListResourceTemplatesResult) relay() relayed {
	return relayed{fingerprintOf(r.ResourceTemplates, r.NextCursor), &r.Cache, r.Meta}
}
