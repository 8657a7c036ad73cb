package testkit

// These files tell tests the build: race detector, build tags soak and slow. .ci/run sets slow;
// soaks are run by hand.
//
//	go test -tags soak ./elicitation/
//	go test -tags slow ./...
