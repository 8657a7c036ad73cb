package wiretest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Message checks one JSON-RPC message sent by from against its definition: the method's request or
// notification, the result of the answered method, or the error's code. answers is the method of
// the request that a response answers. It may be empty for errors, and is unused for other
// messages. A 2025-03-26 batch is checked member by member, all results against answers.
//
// It also checks the specification's prose, and that the schema names every member; see rules.go.
// foreign are additional allowed members, of other implementations or tests.
func (s *Schema) Message(from From, raw []byte, answers string, foreign ...string) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	batch, isBatch := value.([]any)
	switch {
	case !isBatch:
		batch = []any{value}
	case s.revision != "2025-03-26":
		return fmt.Errorf("%s has no batches", s.revision)
	case len(batch) == 0:
		return errors.New("an empty batch")
	}
	for i, member := range batch {
		object, ok := member.(map[string]any)
		err := fmt.Errorf("a message is an object, not a %T", member)
		if ok {
			err = s.message(from, object, answers, foreign)
		}
		if err != nil && isBatch {
			err = fmt.Errorf("member %d of the batch: %w", i, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Schema) message(from From, object map[string]any, answers string, foreign []string) error {
	if err := envelope(object); err != nil {
		return err
	}
	_, hasID := object["id"]
	switch method, isCall := object["method"].(string); {
	case isCall && hasID:
		return s.call(from, "request", "JSONRPCRequest", s.requests[from], method, object, foreign)
	case isCall:
		return s.call(from, "notification", "JSONRPCNotification", s.notifications[from], method,
			object, foreign)
	case object["error"] != nil:
		return s.error(object, foreign)
	default:
		return s.result(answers, object, foreign)
	}
}

func (s *Schema) call(from From, kind, general string, methods map[string]string, method string,
	object map[string]any, foreign []string) error {
	name, ok := methods[method]
	if !ok || strings.Contains(method, "tasks/") { // see closed
		return fmt.Errorf("%s has no %s %q from the %s", s.revision, kind, method, from)
	}
	if err := s.callRules(kind, name, method, object, foreign); err != nil {
		return err
	}
	if err := s.check(general, object); err != nil {
		return err
	}
	return s.check(name, object)
}

func (s *Schema) error(object map[string]any, foreign []string) error {
	general := "JSONRPCErrorResponse"
	if _, ok := s.defs[general]; !ok {
		general = "JSONRPCError" // this was its name until 2025-06-18
	}
	code, err := s.errorRules(object, foreign)
	if err != nil {
		return err
	}
	for _, name := range append([]string{general}, s.errors[code]...) {
		if err := s.check(name, object); err != nil {
			return err
		}
	}
	return nil
}

func (s *Schema) result(answers string, object map[string]any, foreign []string) error {
	general := "JSONRPCResultResponse"
	if _, ok := s.defs[general]; !ok {
		// This was its name until 2025-06-18. Since then the name is that of the union with errors.
		general = "JSONRPCResponse"
	}
	result, ok := object["result"].(map[string]any)
	if !ok {
		return errors.New("a result is an object")
	}
	name, err := s.resultRules(answers, result, foreign)
	if err != nil {
		return err
	}
	if err := s.check(general, object); err != nil {
		return err
	}
	return s.check(name, result)
}

// Validate fails t if raw, sent by from, is not a message of revision; see [Schema.Message].
// Without the published schemas it checks nothing; see reportMissing.
func Validate(t testing.TB, revision string, from From, raw []byte, answers string,
	foreign ...string) {
	t.Helper()
	if schema, ok := Load(revision); !ok {
		reportMissing(t)
	} else if err := schema.Message(from, raw, answers, foreign...); err != nil {
		t.Errorf("wiretest: %v\n%s: %s", err, from, raw)
	}
}

// Conform validates a conversation in revision, matching responses to requests by id. t fails for
// each nonconforming message and each unmatched response. Empty bodies, and HTTP bodies of other
// types, are skipped.
func Conform(t testing.TB, revision string, messages []Message) {
	t.Helper()
	schema, ok := Load(revision)
	if !ok {
		reportMissing(t)
		return
	}
	other := map[From]From{Client: Server, Server: Client}
	asked := map[From]map[string]string{Client: {}, Server: {}}
	for i, message := range messages {
		if len(message.Body) == 0 || message.foreign() {
			continue
		}
		for _, raw := range members(revision, message.Body) {
			method, id := head(raw)
			if method != "" && id != "" {
				asked[message.From][id] = method
			}
			if err := schema.Message(message.From, raw,
				asked[other[message.From]][id]); err != nil {
				t.Errorf("wiretest: message %d: %v\n%s: %s", i+1, err, message.From, raw)
			}
		}
	}
}

// members returns the messages of a batch (if the revision has batches), or the one message.
func members(revision string, raw []byte) []json.RawMessage {
	var batch []json.RawMessage
	if revision == "2025-03-26" && json.Unmarshal(raw, &batch) == nil && len(batch) > 0 {
		return batch
	}
	return []json.RawMessage{raw}
}

// head returns the method and the raw id. Either is empty if absent or unreadable.
func head(raw []byte) (method, id string) {
	var object map[string]json.RawMessage // a struct's fields would match without regard to case
	if json.Unmarshal(raw, &object) != nil || json.Unmarshal(object["method"], &method) != nil {
		method = ""
	}
	return method, string(object["id"])
}

// The method foreign reports whether the HTTP body has a type that the protocol does not use.
func (m Message) foreign() bool {
	for _, line := range m.Header {
		if value, ok := strings.CutPrefix(line, "Content-Type: "); ok {
			media, _, _ := mime.ParseMediaType(value)
			return media != "application/json" && media != "text/event-stream"
		}
	}
	return false
}
