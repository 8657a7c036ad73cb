package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// RelayResult is [DecodeResult] for a program that passes the result on. A complete result is
// encoded with its original members, unknown ones included, in their order; only resultType, cache
// hints and _meta are written anew. If a field was changed in a copy of the result, or an entry is
// nested too deep, the fields are encoded instead. The result aliases data.
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

// A relayable result can be encoded as received.
type relayable interface {
	Result
	relay() relayed
	provenanceOf() *provenance
}

// The type relayed decides how a result is encoded again.
type relayed struct {
	fields fingerprint
	cache  *CacheHints // nil if not part of this result
	meta   Meta
}

type origin struct {
	members json.RawMessage
	read    fingerprint // of the fields after decoding
}

type provenance struct {
	origin *origin // nil if created by this program
	odd    []error // tolerated deviations
}

func (p *provenance) provenanceOf() *provenance { return p }

// notef records a deviation. p may be nil.
func (p *provenance) notef(format string, args ...any) {
	if p != nil {
		p.odd = append(p.odd, fmt.Errorf(format, args...))
	}
}

// A fingerprint detects changed fields. Shared results are not modified in place, so the first
// element and the length identify a list.
type fingerprint struct {
	first any // pointer to the first element
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

// relayedMembers returns the original members, nil for results created here or changed since.
func relayedMembers(r relayable) json.RawMessage {
	if o := r.provenanceOf().origin; o != nil && o.read == r.relay().fields {
		return o.members
	}
	return nil
}

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
