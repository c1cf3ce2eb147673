package jinja

// Statements. A line is that of the tag, for messages.
type (
	node interface{}

	dataNode  struct{ text string }
	printNode struct {
		line int
		expr expr
	}
	ifNode struct {
		line      int
		cond      expr
		then, alt []node
	}
	forNode struct {
		line      int
		targets   []string
		iter      expr
		cond      expr // nil: every item
		body, alt []node
	}
	breakNode    struct{}
	continueNode struct{}
	setNode      struct {
		line    int
		targets []string // several: the value is unpacked
		attr    string   // of the single target, a namespace; "": the variable itself
		value   expr     // nil: body
		body    []node
		filter  expr // of a block: a filterExpr chain over captured; nil: none
	}
	macroNode struct {
		line     int
		name     string
		params   []string
		defaults []expr // of the last parameters
		body     []node
	}
	callNode struct { // {% call f() %}body{% endcall %}
		line  int
		call  *callExpr
		block *macroNode
	}
	filterNode struct { // {% filter f %}body{% endfilter %}
		line   int
		filter expr
		body   []node
	}
	withNode struct {
		line   int
		names  []string
		values []expr
		body   []node
	}
)

// Expressions.
type (
	expr interface{}

	constExpr struct{ value Value }
	nameExpr  struct{ name string }
	listExpr  struct {
		items []expr
		tuple bool
	}
	dictExpr  struct{ keys, values []expr }
	unaryExpr struct {
		op string // "-", "+", "not"
		x  expr
	}
	binaryExpr struct {
		op   string // arithmetic, "~", "and", "or"
		x, y expr
	}
	compareExpr struct { // a < b <= c
		first expr
		ops   []string
		rest  []expr
	}
	condExpr struct{ cond, then, alt expr } // alt nil: undefined
	attrExpr struct {
		x    expr
		name string
	}
	itemExpr  struct{ x, key expr }
	sliceExpr struct{ x, start, stop, step expr } // nil: left out
	callExpr  struct {
		fn   expr
		args argList
	}
	filterExpr struct {
		x    expr
		name string
		fn   filter
		args argList
	}
	testExpr struct {
		x      expr
		name   string
		fn     test
		args   argList
		negate bool
	}
	captured struct{} // the text of the block a filter is applied to
)

type argList struct {
	pos   []expr
	names []string
	named []expr
	star  expr // *args; nil: none
	stars expr // **kwargs
}
