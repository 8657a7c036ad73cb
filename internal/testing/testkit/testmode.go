package testkit

// These files tell tests how they were built: with the race detector, or the build tags soak and
// slow. .ci/run sets slow; soaks are run by hand.
//
//	go test -tags soak ./elicitation/
//	go test -tags slow ./...
