// Package wire holds what the peers of a comparison have in common: the tools
// they serve, the messages they are sent, how answers are read and checked,
// and the state that handlers seal where their library does not.
package wire

import "fmt"

// The tools that every server serves.
const (
	Echo   = "echo"   // answers with its message
	Sink   = "sink"   // takes a message and any data, answers "ok"
	Deploy = "deploy" // asks one question with a form, then answers
	Survey = "survey" // asks n such questions at once, then answers
)

// The input schemas of the tools.
const (
	EchoSchema   = `{"type":"object","properties":{"message":{"type":"string","description":"text to echo"},"upper":{"type":"boolean","description":"shout"}},"required":["message"]}`
	SinkSchema   = `{"type":"object","properties":{"message":{"type":"string"},"data":{}},"required":["message"]}`
	DeploySchema = `{"type":"object","properties":{"environment":{"type":"string","description":"where"},"version":{"type":"string","description":"what"}},"required":["environment","version"]}`
	SurveySchema = `{"type":"object","properties":{"environment":{"type":"string"},"n":{"type":"integer"}},"required":["environment","n"]}`
)

// ConfirmSchema is the form of every question.
const ConfirmSchema = `{"type":"object","properties":{"approve":{"type":"boolean","description":"whether to proceed"},"note":{"type":"string","description":"why"}},"required":["approve"]}`

// The arguments of the tools, for peers that decode into structs.
type (
	EchoArgs struct {
		Message string `json:"message"`
		Upper   bool   `json:"upper,omitempty"`
	}
	SinkArgs struct {
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}
	DeployArgs struct {
		Environment string `json:"environment"`
		Version     string `json:"version"`
	}
	SurveyArgs struct {
		Environment string `json:"environment"`
		N           int    `json:"n"`
	}
)

// ConfirmKey is the key of the question of Deploy.
const ConfirmKey = "confirm"

// MaxSurvey is how many questions Survey asks at most.
const MaxSurvey = 100

// SurveyKey is the key of question i of Survey.
func SurveyKey(i int) string { return fmt.Sprintf("q%03d", i) }

// Question is the message of the question of Deploy, and of each of Survey
// with the version "v".
func Question(environment, version string) string {
	return "Deploy " + version + " to " + environment + "?"
}

// Deployed is the final answer of Deploy.
func Deployed(environment, version string) string {
	return "deployed " + version + " to " + environment
}

// Surveyed is the final answer of Survey.
func Surveyed(environment string, n int) string {
	return fmt.Sprintf("deployed to %s with %d answers", environment, n)
}
