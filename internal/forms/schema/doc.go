// Package schema compiles JSON Schemas and validates documents against them when neither side is
// trusted: in a gateway, both may come from strangers.
//
// # Supported
//
// The dialect is 2020-12 unless $schema names an older draft (04, 06, 07, 2019-09). Formats are
// asserted. Patterns are RE2, which matches in linear time. $dynamicRef and $recursiveRef are
// refused, because their cost depends on the document. Nothing is fetched: a reference that leaves
// the schema fails [Compile].
//
// # Limits
//
// A few hundred bytes of schema can describe 2^30 evaluations, by references that fan out in place
// (a0: anyOf[a1, a1], a1: anyOf[a2, a2], …) or by recursion that visits each child twice. So
// [Schema.Validate] deducts each step from a budget, and refuses documents past [Limits.MaxSteps].
// It stops at the first fault, so that refusing costs little more than decoding.
//
// # Performance
//
// Flat objects of scalars, enumerations and lists of strings are checked on their bytes. Other
// documents, and documents not accepted that way, are decoded.
//
// # Value rules
//
// Lengths, bounds, choices and formats have one implementation, shared with package form ([Rules]).
//
// # Errors
//
// A document's fault is an [*Error], which names the member and the rule, never the value: answers
// must not leak into logs. Of several faults, the same one is always reported.
package schema
