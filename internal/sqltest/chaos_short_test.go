//go:build postgres && !soak

package sqltest_test

// chaosFlows is how many flows TestChaos has; with the tag soak there are more.
const chaosFlows = 150
