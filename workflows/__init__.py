"""What is run and in which order: studies, their schema, and the stages that turn a study into results."""
