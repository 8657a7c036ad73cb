package protocol

import (
	"encoding/json"
	"fmt"
)

// RelayResult is [DecodeResultReporting] for a program that passes the result on. A result that
// was complete is encoded again with the members that it came with, also those that this package
// does not know, in their order. What the revision of the receiver decides is written anew:
// resultType, cache hints and _meta. Whoever changes a field of a copy of the result gets the
// fields encoded instead. It aliases data.
func RelayResult(
	v Version, method string, data []byte, report func(error),
) (Result, error) {
	result, err := DecodeResultReporting(v, method, data, report)
	if r, ok := result.(relayable); ok && err == nil {
		*r.originOf() = &origin{data, r.fingerprint()}
	}
	return result, err
}

// A relayable result can be encoded as it came.
type relayable interface {
	Result
	originOf() **origin
	fingerprint() fingerprint
}

// An origin is where a relayed result comes from.
type origin struct {
	members json.RawMessage
	read    fingerprint // of the fields when they were read
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
func relayedMembers(r Result) json.RawMessage {
	if r, ok := r.(relayable); ok {
		if o := *r.originOf(); o != nil && o.read == r.fingerprint() {
			return o.members
		}
	}
	return nil
}

// appendRelayed writes a result with the members that it came with.
func appendRelayed(w *objectWriter, v Version, r Result, members json.RawMessage) error {
	err := walkMembers(members, func(key, value []byte) error {
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
	cache, meta := (*CacheHints)(nil), Meta(nil)
	switch r := r.(type) {
	case *CallToolResult:
		meta = r.Meta
	case *GetPromptResult:
		meta = r.Meta
	case *CompleteResult:
		meta = r.Meta
	case *ReadResourceResult:
		cache, meta = &r.Cache, r.Meta
	case *ListToolsResult:
		cache, meta = &r.Cache, r.Meta
	case *ListPromptsResult:
		cache, meta = &r.Cache, r.Meta
	case *ListResourcesResult:
		cache, meta = &r.Cache, r.Meta
	case *ListResourceTemplatesResult:
		cache, meta = &r.Cache, r.Meta
	default:
		return fmt.Errorf("%T cannot be relayed", r)
	}
	if cache != nil && v.Era() == Modern {
		cache.appendHints(w)
	}
	w.addRawObject("_meta", meta)
	return nil
}

func (r *CallToolResult) originOf() **origin              { return &r.origin }
func (r *GetPromptResult) originOf() **origin             { return &r.origin }
func (r *ReadResourceResult) originOf() **origin          { return &r.origin }
func (r *CompleteResult) originOf() **origin              { return &r.origin }
func (r *ListToolsResult) originOf() **origin             { return &r.origin }
func (r *ListPromptsResult) originOf() **origin           { return &r.origin }
func (r *ListResourcesResult) originOf() **origin         { return &r.origin }
func (r *ListResourceTemplatesResult) originOf() **origin { return &r.origin }

func (r *CallToolResult) fingerprint() fingerprint {
	return fingerprintOf(r.Content, [2]any{firstOf(r.StructuredContent), r.IsError})
}

func (r *GetPromptResult) fingerprint() fingerprint {
	return fingerprintOf(r.Messages, r.Description)
}

func (r *ReadResourceResult) fingerprint() fingerprint { return fingerprintOf(r.Contents, nil) }

func (r *CompleteResult) fingerprint() fingerprint {
	return fingerprintOf(r.Values, [2]any{r.Total, r.HasMore})
}

func (r *ListToolsResult) fingerprint() fingerprint { return fingerprintOf(r.Tools, r.NextCursor) }

func (r *ListPromptsResult) fingerprint() fingerprint {
	return fingerprintOf(r.Prompts, r.NextCursor)
}

func (r *ListResourcesResult) fingerprint() fingerprint {
	return fingerprintOf(r.Resources, r.NextCursor)
}

func (r *ListResourceTemplatesResult) fingerprint() fingerprint {
	return fingerprintOf(r.ResourceTemplates, r.NextCursor)
}
