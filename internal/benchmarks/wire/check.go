package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

// A Do sends a call with a state and returns the HTTP status and the body of
// the response, which is valid until the next call.
type Do func(c Call, state []byte) (int, []byte)

// Check reports whether a server gives the answers that every peer has to give.
// Nothing is measured of one that does not. A server that seals must refuse a
// state that was tampered with.
func Check(do Do, seals bool) error {
	q := question{Method: "elicitation/create"}
	q.Params.Mode, q.Params.Message = "form", Deployment().Question()
	if err := json.Unmarshal([]byte(ConfirmSchema), &q.Params.Schema); err != nil {
		return err
	}
	if _, err := do.check(EchoCall(), nil, text(Hello)); err != nil {
		return err
	}
	given, err := do.check(DeployCall(), nil,
		result{Type: "input_required", Asked: map[string]question{ConfirmKey: q}})
	if err != nil {
		return err
	}
	state := []byte(given)
	_, err = do.check(DeployAnswer(), state, text(Deployment().Deployed()))
	if err != nil || !seals {
		return err
	}
	for _, i := range []int{len(state) / 3, len(state) / 2} {
		changed := bytes.Clone(state)
		if changed[i]++; changed[i] > 'a' {
			changed[i] = 'A'
		}
		if got, err := do.get(DeployAnswer(), changed); err == nil && got.Type == "complete" &&
			!got.IsError {
			return fmt.Errorf("%s: a changed state is accepted", Deploy)
		}
	}
	return nil
}

// A result is what is looked at of a response.
type result struct {
	Type    string `json:"resultType"`
	Content []content
	IsError bool
	State   string              `json:"requestState"`
	Asked   map[string]question `json:"inputRequests"`
}

type content struct{ Type, Text string }

type question struct {
	Method string
	Params struct {
		Mode, Message string
		Schema        any `json:"requestedSchema"`
	}
}

func text(s string) result {
	return result{Type: "complete", Content: []content{{"text", s}}}
}

// check holds the result of a call against what it has to be, but for the state, which there is
// if something is asked. It returns the state.
func (do Do) check(call Call, state []byte, want result) (string, error) {
	got, err := do.get(call, state)
	if err != nil {
		return "", err
	}
	next := got.State
	if want.Content == nil {
		got.Content = nil // what else there is, is not looked at
	}
	if got.State = ""; !reflect.DeepEqual(*got, want) || next == "" && want.Asked != nil {
		return "", fmt.Errorf("%s: got %+v and the state %q, want %+v", call.Tool, *got, next, want)
	}
	return next, nil
}

// get returns the result of a call; errors of the protocol are errors.
func (do Do) get(call Call, state []byte) (*result, error) {
	status, body := do(call, state)
	var m struct {
		JSONRPC string
		ID      json.RawMessage
		Result  *result
		Error   json.RawMessage
	}
	if err := json.Unmarshal(lastMessage(body), &m); err != nil {
		return nil, fmt.Errorf("%s: status %d: %v: %.300s", call.Tool, status, err, body)
	}
	if status != 200 || m.Error != nil || m.Result == nil || m.JSONRPC != "2.0" ||
		string(m.ID) != "1000000000" {
		return nil, fmt.Errorf("%s: status %d: %.300s", call.Tool, status, body)
	}
	return m.Result, nil
}

// lastMessage returns the last message of a response that is JSON or a stream of events.
func lastMessage(response []byte) []byte {
	if bytes.HasPrefix(response, []byte("{")) {
		return response
	}
	var last []byte
	for line := range bytes.Lines(response) {
		if data, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:")); ok {
			last = bytes.TrimSpace(data)
		}
	}
	return last
}
