package dialects

const errorsFile = "errors.yaml"
