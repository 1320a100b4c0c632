"""What tests of the store and of those who use it need: a faulty disk, a model, a fixed clock."""
