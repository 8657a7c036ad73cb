package wiretest

import (
	"errors"
	"fmt"
	"slices"
)

// What follows is required by the specification's text and cannot be seen in its schemas, whose objects are open.

const inputRequired = "input_required"

// rounds are the methods whose answer may ask for input (2026-07-28, multi round-trip requests).
func rounds() []string { return []string{"tools/call", "prompts/get", "resources/read"} }

// modernOnly are members that revisions with sessions do not have; one of them there is another era's message.
func modernOnly() []string {
	return []string{"resultType", "inputRequests", "requestState", "ttlMs", "cacheScope"}
}

func (s *Schema) callRules(method string, object map[string]any) error {
	params, _ := object["params"].(map[string]any)
	if !s.modern() {
		for _, name := range []string{"inputResponses", "requestState"} {
			if _, ok := params[name]; ok {
				return fmt.Errorf("%s has no %s in a request", s.revision, name)
			}
		}
		return nil
	}
	for _, name := range []string{"inputResponses", "requestState"} {
		if _, ok := params[name]; ok && !slices.Contains(rounds(), method) {
			return fmt.Errorf("%s does not take %s", method, name)
		}
	}
	return nil
}

func (s *Schema) resultRules(answers string, result map[string]any) error {
	if !s.modern() {
		for _, name := range modernOnly() {
			if _, ok := result[name]; ok {
				return fmt.Errorf("%s has no %s in the answer to %s", s.revision, name, answers)
			}
		}
		return nil
	}
	requests, hasRequests := result["inputRequests"]
	_, hasState := result["requestState"]
	switch result["resultType"] {
	case inputRequired:
		if !hasRequests && !hasState {
			return errors.New("an input_required result has at least one of inputRequests and requestState")
		}
		for name := range result {
			switch name {
			case "resultType", "inputRequests", "requestState", "_meta":
			default:
				return fmt.Errorf("an input_required result has no %s", name)
			}
		}
		return questionRules(requests)
	case "complete":
		if hasRequests || hasState {
			return errors.New("a complete result carries no inputRequests and no requestState")
		}
		return nil
	default:
		return fmt.Errorf("%s has no resultType %v", s.revision, result["resultType"])
	}
}

// questionRules refuses what belongs to a request that is sent, not carried: an id, and the elicitationId that URL
// questions had while they were pushed.
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

func (s *Schema) errorRules(code int64) error {
	switch {
	case code == -32042 && s.revision != "2025-11-25":
		return fmt.Errorf("%s has no error -32042: asking for a URL visit is a result there or not known at all", s.revision)
	case code >= -32022 && code <= -32020 && !s.modern():
		return fmt.Errorf("%s has no error %d", s.revision, code)
	}
	return nil
}
