package protocol

// A Result answers a request: a pointer to a type of this package whose name ends in Result. The
// interface is sealed: [EncodeResult] refuses types that only embed one of them.
type Result interface{ coded }

// The result types (basic/index, "ResultType").
const (
	resultComplete      = "complete"
	resultInputRequired = "input_required"
	resultTask          = "task" // of the tasks extension
)

// A CallToolOutcome is a [*CallToolResult], an [*InputRequiredResult] or, with the tasks extension,
// a [*CreateTaskResult], which handlers do not return themselves.
type CallToolOutcome interface {
	Result
	isCallToolOutcome()
}

// A GetPromptOutcome is a [*GetPromptResult] or an [*InputRequiredResult].
type GetPromptOutcome interface {
	Result
	isGetPromptOutcome()
}

// A ReadResourceOutcome is a [*ReadResourceResult] or an [*InputRequiredResult].
type ReadResourceOutcome interface {
	Result
	isReadResourceOutcome()
}

// EmptyResult answers requests whose result has no members of its own.
type EmptyResult struct{ Meta Meta }

func (*EmptyResult) checkComplete() error  { return nil }
func (*ListenResult) checkComplete() error { return nil }

func (r *EmptyResult) codeMembers(w *objectWriter, m member) error {
	return w.codeMeta(m, &r.Meta)
}

func (r *ListenResult) codeMembers(w *objectWriter, m member) error {
	return w.codeMeta(m, &r.Meta)
}

func (*CallToolResult) isCallToolOutcome()          {}
func (*InputRequiredResult) isCallToolOutcome()     {}
func (*GetPromptResult) isGetPromptOutcome()        {}
func (*InputRequiredResult) isGetPromptOutcome()    {}
func (*ReadResourceResult) isReadResourceOutcome()  {}
func (*InputRequiredResult) isReadResourceOutcome() {}
