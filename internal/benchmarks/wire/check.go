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

// Check says whether a server gives the answers that every peer has to give.
// Nothing is measured of one that does not. A server that seals must refuse a
// state that was tampered with. Questions is how many a server can ask at once.
func Check(do Do, seals bool, questions int) error {
	c := checker{do}
	if err := c.says(EchoCall(), nil, Hello); err != nil {
		return err
	}
	for _, size := range []int{1 << 10, 1 << 20} {
		for _, call := range []Call{SinkText(size), SinkObjects(size)} {
			if err := c.says(call, nil, "ok"); err != nil {
				return err
			}
		}
	}
	for _, note := range []int{0, 64 << 10, 1 << 20} {
		if err := c.flow(DeployCall(), DeployAnswer(note), Deployed(Environment, Release),
			ConfirmKey); err != nil {
			return err
		}
	}
	for n := 1; n <= questions; n *= 10 {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = SurveyKey(i)
		}
		if err := c.flow(SurveyCall(n), SurveyAnswer(n), Surveyed(Environment, n),
			keys...); err != nil {
			return err
		}
	}
	if seals {
		return c.refuses()
	}
	return nil
}

type checker struct{ do Do }

// A result is what is looked at of a response.
type result struct {
	Type    string `json:"resultType"`
	Content []struct{ Type, Text string }
	IsError bool
	State   string `json:"requestState"`
	Asked   map[string]struct {
		Method string
		Params struct {
			Mode, Message string
			Schema        json.RawMessage `json:"requestedSchema"`
		}
	} `json:"inputRequests"`
}

// get returns the result of a call; errors of the protocol are errors.
func (c checker) get(call Call, state []byte) (*result, error) {
	status, body := c.do(call, state)
	var m struct {
		JSONRPC string
		ID      json.RawMessage
		Result  *result
		Error   json.RawMessage
	}
	if err := json.Unmarshal(Message(body), &m); err != nil {
		return nil, fmt.Errorf("%s: status %d: %v: %.300s", call.Tool, status, err, body)
	}
	if status != 200 || m.Error != nil || m.Result == nil || m.JSONRPC != "2.0" ||
		string(m.ID) != "1000000000" {
		return nil, fmt.Errorf("%s: status %d: %.300s", call.Tool, status, body)
	}
	return m.Result, nil
}

func (c checker) says(call Call, state []byte, want string) error {
	got, err := c.get(call, state)
	if err != nil {
		return err
	}
	if got.Type != "complete" || got.IsError || len(got.Content) != 1 ||
		got.Content[0].Type != "text" || got.Content[0].Text != want {
		return fmt.Errorf("%s: got %+v, want the text %q", call.Tool, *got, want)
	}
	return nil
}

// asks checks what is asked, and returns the state.
func (c checker) asks(call Call, keys ...string) ([]byte, error) {
	got, err := c.get(call, nil)
	if err != nil {
		return nil, err
	}
	if got.Type != "input_required" || len(got.Asked) != len(keys) || got.State == "" {
		return nil, fmt.Errorf("%s: got %+v, want %d questions and a state", call.Tool, *got,
			len(keys))
	}
	for _, key := range keys {
		q, message := got.Asked[key], Question(Environment, "v")
		if call.Tool == Deploy {
			message = Question(Environment, Release)
		}
		if q.Method != "elicitation/create" || q.Params.Mode != "form" ||
			q.Params.Message != message {
			return nil, fmt.Errorf("%s: %s: got %+v, want a form that says %q", call.Tool, key, q,
				message)
		}
		if !sameJSON(q.Params.Schema, []byte(ConfirmSchema)) {
			return nil, fmt.Errorf("%s: %s: got the form %s, want %s", call.Tool, key,
				q.Params.Schema, ConfirmSchema)
		}
	}
	return []byte(got.State), nil
}

func (c checker) flow(first, second Call, want string, keys ...string) error {
	state, err := c.asks(first, keys...)
	if err != nil {
		return err
	}
	return c.says(second, state, want)
}

// refuses checks that a state that was changed is not accepted.
func (c checker) refuses() error {
	state, err := c.asks(DeployCall(), ConfirmKey)
	if err != nil {
		return err
	}
	for _, i := range []int{len(state) / 3, len(state) / 2} {
		changed := bytes.Clone(state)
		if changed[i]++; changed[i] > 'a' {
			changed[i] = 'A'
		}
		if got, err := c.get(DeployAnswer(0), changed); err == nil && got.Type == "complete" &&
			!got.IsError {
			return fmt.Errorf("%s: a changed state is accepted", Deploy)
		}
	}
	return nil
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
