package protocol

import (
	"fmt"
)

// A Result answers a request: one of the pointer types of this package whose
// name ends in Result. The interface is sealed. A type that embeds one of them
// still satisfies it, but [EncodeResult] refuses everything but the exact
// types.
type Result interface {
	// ResultType returns "complete" or "input_required".
	ResultType() string
	result()
}

// The result types (basic/index, "ResultType").
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
)

// A CallToolOutcome is what tools/call may answer: a [*CallToolResult] or an
// [*InputRequiredResult].
type CallToolOutcome interface {
	Result
	callToolOutcome()
}

// A GetPromptOutcome is what prompts/get may answer: a [*GetPromptResult] or an
// [*InputRequiredResult].
type GetPromptOutcome interface {
	Result
	getPromptOutcome()
}

// A ReadResourceOutcome is what resources/read may answer: a
// [*ReadResourceResult] or an [*InputRequiredResult].
type ReadResourceOutcome interface {
	Result
	readResourceOutcome()
}

// EmptyResult answers requests that have nothing to say.
type EmptyResult struct{ Meta Meta }

// ResultType returns "complete".
func (*EmptyResult) ResultType() string { return ResultComplete }

// ResultType returns "complete".
func (*CallToolResult) ResultType() string { return ResultComplete }

// ResultType returns "complete".
func (*GetPromptResult) ResultType() string { return ResultComplete }

// ResultType returns "complete".
func (*ReadResourceResult) ResultType() string { return ResultComplete }

// ResultType returns "complete".
func (*ListToolsResult) ResultType() string { return ResultComplete }

// ResultType returns "complete".
func (*ListPromptsResult) ResultType() string { return ResultComplete }

// ResultType returns "complete".
func (*ListResourcesResult) ResultType() string { return ResultComplete }

// ResultType returns "complete".
func (*ListResourceTemplatesResult) ResultType() string { return ResultComplete }

// ResultType returns "complete".
func (*DiscoverResult) ResultType() string { return ResultComplete }

// ResultType returns "complete".
func (*CompleteResult) ResultType() string { return ResultComplete }

// ResultType returns "complete".
func (*ListenResult) ResultType() string { return ResultComplete }

// ResultType returns "input_required".
func (*InputRequiredResult) ResultType() string { return ResultInputRequired }

func (*EmptyResult) result()                 {}
func (*CallToolResult) result()              {}
func (*GetPromptResult) result()             {}
func (*ReadResourceResult) result()          {}
func (*ListToolsResult) result()             {}
func (*ListPromptsResult) result()           {}
func (*ListResourcesResult) result()         {}
func (*ListResourceTemplatesResult) result() {}
func (*DiscoverResult) result()              {}
func (*CompleteResult) result()              {}
func (*ListenResult) result()                {}
func (*InputRequiredResult) result()         {}

func (*CallToolResult) callToolOutcome()          {}
func (*InputRequiredResult) callToolOutcome()     {}
func (*GetPromptResult) getPromptOutcome()        {}
func (*InputRequiredResult) getPromptOutcome()    {}
func (*ReadResourceResult) readResourceOutcome()  {}
func (*InputRequiredResult) readResourceOutcome() {}

// An UnknownResultTypeError reports a resultType that this package does not
// know. Such a result must not be used (basic/index, "ResultType").
type UnknownResultTypeError struct{ ResultType string }

// Error names the type.
func (e *UnknownResultTypeError) Error() string {
	return fmt.Sprintf("result: unknown resultType %s", clip(e.ResultType))
}
