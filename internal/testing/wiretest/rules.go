package wiretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// What follows is required by the specification's text and cannot be seen in its schemas, whose
// objects are open. It needs no schema either, so that it holds wherever the tests run.

// rules are those of one revision.
type rules struct {
	revision string
	foreign  []string // members that the lists need not have
}

// modern tells the revisions without sessions from those with them.
func (r rules) modern() bool { return r.revision >= firstWithRounds }

const inputRequired = "input_required"

// rounds are the methods whose answer may ask for input (2026-07-28, multi round-trip requests).
func rounds() []string { return []string{"tools/call", "prompts/get", "resources/read"} }

// message holds one message, said by from, against the rules.
func (r rules) message(from From, object map[string]any, answers string) error {
	if err := envelope(object); err != nil {
		return err
	}
	_, hasID := object["id"]
	switch method, isCall := object["method"].(string); {
	case isCall:
		return r.call(from, method, !hasID, object)
	case object["error"] != nil:
		return r.error(object)
	default:
		result, ok := object["result"].(map[string]any)
		if !ok {
			return errors.New("a result is an object")
		}
		return r.result(answers, result)
	}
}

func (r rules) call(from From, method string, notification bool, object map[string]any) error {
	kind := "request"
	if notification {
		kind = "notification"
	}
	known, ok := r.shapeOf(from, method, notification)
	if !ok {
		return fmt.Errorf("%s has no %s %q from the %s", r.revision, kind, method, from)
	}
	value, present := object["params"]
	params, isObject := value.(map[string]any)
	if present && !isObject {
		return fmt.Errorf("the params of %s are an object", method)
	}
	if err := r.closed("a "+kind+" "+method, params, r.members(known.params)...); err != nil {
		return err
	}
	return r.meta(params)
}

func (r rules) result(answers string, result map[string]any) error {
	known, ok := r.shapeOf("", answers, false)
	if !ok {
		return fmt.Errorf("a result answers a request, and %s has none called %q", r.revision,
			answers)
	}
	if err := r.meta(result); err != nil {
		return err
	}
	what := "the answer to " + answers
	if !r.modern() {
		return r.closed(what, result, r.members(known.result)...)
	}
	switch result["resultType"] {
	case inputRequired:
		return r.inputRequired(answers, result)
	case "complete":
		return r.closed(what, result, append(r.members(known.result), "resultType")...)
	default:
		return fmt.Errorf("%s has no resultType %v", r.revision, result["resultType"])
	}
}

func (r rules) inputRequired(answers string, result map[string]any) error {
	if !slices.Contains(rounds(), answers) {
		return fmt.Errorf("the answer to %s cannot be input_required", answers)
	}
	requests, hasRequests := result["inputRequests"]
	if _, hasState := result["requestState"]; !hasRequests && !hasState {
		return errors.New("an input_required result has at least one of inputRequests and " +
			"requestState")
	}
	if err := r.closed("an input_required result", result, "_meta", "resultType", "inputRequests",
		"requestState"); err != nil {
		return err
	}
	return questionRules(requests)
}

func (r rules) error(object map[string]any) error {
	said, ok := object["error"].(map[string]any)
	if !ok {
		return errors.New("an error is an object")
	}
	if err := r.closed("an error", said, "code", "message", "data"); err != nil {
		return err
	}
	number, _ := said["code"].(json.Number)
	code, err := number.Int64()
	switch {
	case err != nil:
		return fmt.Errorf("the error code is no integer of 64 bits: %w", err)
	case code == -32042 && r.revision != "2025-11-25":
		return fmt.Errorf("%s has no error -32042: asking for a URL visit is a result there or "+
			"not known at all", r.revision)
	case code >= -32022 && code <= -32020 && !r.modern():
		return fmt.Errorf("%s has no error %d", r.revision, code)
	}
	return nil
}

// questionRules refuses what belongs to a request that is sent, not carried: an id, and the
// elicitationId that URL questions had while they were pushed.
func questionRules(requests any) error {
	questions, _ := requests.(map[string]any)
	for key, question := range questions {
		object, _ := question.(map[string]any)
		for name := range object {
			if name != "method" && name != "params" {
				return fmt.Errorf("input request %q has no %s", key, name)
			}
		}
		params, _ := object["params"].(map[string]any)
		if _, ok := params["elicitationId"]; ok {
			return fmt.Errorf("input request %q has no elicitationId", key)
		}
	}
	return nil
}
