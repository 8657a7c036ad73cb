package wiretest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Message checks one JSON-RPC message, said by from, against the definition that fits it: the
// request or notification of its method, the result of the method it answers, or the error of its
// code. answers is the method of the request that a response answers, and is not looked at for
// anything else; a response may leave it empty only when it is an error. A 2025-03-26 batch is
// checked member by member, its results against answers alike.
//
// Beyond the schema it holds what the specification's prose requires of the same message; see
// rules.go.
//
// foreign are members that are let pass although the lists of this package do not have them: those
// that a peer of another make adds, or that a test makes up.
func (s *Schema) Message(from From, raw []byte, answers string, foreign ...string) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return eachMessage(value, s.revision,
		func(object map[string]any) error { return s.message(from, object, answers, foreign) })
}

// Rules checks what needs no schema, as [Schema.Message] does it all: what a message is, and which
// methods and members the revision has.
func Rules(revision string, from From, raw []byte, answers string, foreign ...string) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return eachMessage(value, revision,
		func(object map[string]any) error {
			return rules{revision, foreign}.message(from, object,
				answers)
		})
}

// eachMessage calls check with the one message that value is, or with those of a batch where the
// revision has them.
func eachMessage(value any, revision string, check func(map[string]any) error) error {
	batch, isBatch := value.([]any)
	switch {
	case !isBatch:
		batch = []any{value}
	case revision != "2025-03-26":
		return fmt.Errorf("%s has no batches", revision)
	case len(batch) == 0:
		return errors.New("an empty batch")
	}
	for i, member := range batch {
		object, ok := member.(map[string]any)
		err := fmt.Errorf("a message is an object, not a %T", member)
		if ok {
			err = check(object)
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
	if err := (rules{s.revision, foreign}).message(from, object, answers); err != nil {
		return err
	}
	_, hasID := object["id"]
	switch method, isCall := object["method"].(string); {
	case isCall && hasID:
		return s.call(from, "request", "JSONRPCRequest", s.requests[from], method, object)
	case isCall:
		return s.call(from, "notification", "JSONRPCNotification", s.notifications[from], method,
			object)
	case object["error"] != nil:
		return s.error(object)
	default:
		return s.result(answers, object)
	}
}

// envelope refuses what belongs to two kinds of message at once or to none. The schemas let both
// through, since every definition allows further members.
func envelope(object map[string]any) error {
	count := 0
	for _, name := range []string{"method", "result", "error"} {
		if _, ok := object[name]; ok {
			count++
		}
	}
	if count != 1 {
		return fmt.Errorf("a message has exactly one of method, result and error, not %d", count)
	}
	for name := range object {
		if !slices.Contains([]string{"jsonrpc", "id", "method", "params", "result", "error"},
			name) {
			return fmt.Errorf("JSON-RPC has no member %q in a message", name)
		}
	}
	return nil
}

func (s *Schema) call(from From, kind, general string, methods map[string]string, method string,
	object map[string]any) error {
	if err := s.check(general, object); err != nil {
		return err
	}
	name, ok := methods[method]
	if !ok {
		return fmt.Errorf("%s has no %s %q from the %s", s.revision, kind, method, from)
	}
	return s.check(name, object)
}

func (s *Schema) error(object map[string]any) error {
	general := "JSONRPCErrorResponse"
	if _, ok := s.defs[general]; !ok {
		general = "JSONRPCError" // its name until 2025-06-18
	}
	if err := s.check(general, object); err != nil {
		return err
	}
	code, err := object["error"].(map[string]any)["code"].(json.Number).Int64()
	if err != nil {
		return fmt.Errorf("the error code is no integer of 64 bits: %w", err)
	}
	for _, name := range s.errors[code] {
		if err := s.check(name, object); err != nil {
			return err
		}
	}
	return nil
}

func (s *Schema) result(answers string, object map[string]any) error {
	general := "JSONRPCResultResponse"
	if _, ok := s.defs[general]; !ok {
		// its name until 2025-06-18, and since then that of the union with errors
		general = "JSONRPCResponse"
	}
	if err := s.check(general, object); err != nil {
		return err
	}
	name, ok := s.results[answers]
	if !ok {
		return fmt.Errorf("a result answers a request, and %s has none called %q", s.revision,
			answers)
	}
	result := object["result"].(map[string]any)
	// The published union of InputRequiredResult and the method's own result lets anything with a
	// resultType through, for want of a constant in the first; the discriminator itself picks here.
	if (rules{revision: s.revision}).modern() && result["resultType"] == inputRequired {
		name = "InputRequiredResult"
	}
	return s.check(name, result)
}

// checkerOf is [Schema.Message] where the published schema of revision is at hand. Where it is not,
// it is [Rules], and specdata says so: to whoever runs the tests, or in continuous integration by
// failing t.
func checkerOf(t testing.TB,
	revision string) func(from From, raw []byte, answers string, foreign ...string) error {
	t.Helper()
	if schema, ok := Load(revision); ok {
		return schema.Message
	}
	ReportMissing(t)
	return func(from From, raw []byte, answers string, foreign ...string) error {
		return Rules(revision, from, raw, answers, foreign...)
	}
}

// Validate fails t when raw, said by from, is not a message of revision; see [Schema.Message].
// Where the published schemas are not beside the project it holds raw against what needs none, see
// [Rules].
func Validate(t testing.TB, revision string, from From, raw []byte, answers string,
	foreign ...string) {
	t.Helper()
	if err := checkerOf(t, revision)(from, raw, answers, foreign...); err != nil {
		t.Errorf("wiretest: %v\n%s: %s", err, from, raw)
	}
}

// Conform validates a whole conversation in revision, matching responses with requests by id, and
// fails t for each message that does not conform, and for each response that answers nothing. It
// passes over empty bodies and over HTTP bodies that do not claim to be JSON or an event stream,
// such as a proxy's page of text.
func Conform(t testing.TB, revision string, messages []Message) {
	t.Helper()
	check := checkerOf(t, revision)
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
			if err := check(message.From, raw, asked[message.From.other()][id]); err != nil {
				t.Errorf("wiretest: message %d: %v\n%s: %s", i+1, err, message.From, raw)
			}
		}
	}
}

// members are the messages of a batch where the revision has them, each with a request of its own
// to answer, or the one message.
func members(revision string, raw []byte) []json.RawMessage {
	var batch []json.RawMessage
	if revision == "2025-03-26" && json.Unmarshal(raw, &batch) == nil && len(batch) > 0 {
		return batch
	}
	return []json.RawMessage{raw}
}

// head is the method and the id as it is spelled, each empty where there is none. What it cannot
// read, Message refuses.
func head(raw []byte) (method, id string) {
	var object map[string]json.RawMessage // a map, because matching struct fields would fold case
	if json.Unmarshal(raw, &object) != nil || json.Unmarshal(object["method"], &method) != nil {
		method = ""
	}
	return method, string(object["id"])
}

// foreign tells an HTTP body that is of another type than the protocol's two.
func (m Message) foreign() bool {
	for _, line := range m.Header {
		if value, ok := strings.CutPrefix(line, "Content-Type: "); ok {
			media, _, _ := mime.ParseMediaType(value)
			return media != "application/json" && media != "text/event-stream"
		}
	}
	return false
}
